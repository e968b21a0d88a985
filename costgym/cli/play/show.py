"""`costgym show`: look at an episode, or at two agents side by side."""

import os
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from costgym.cli.options import EnvName, WorldOptions, expect_path
from costgym.cli.players import entry_and_id, find_player, make_player
from costgym.experiments.play.options import Model, Seed
from costgym.simulators.bounds import argument, option
from costgym.simulators.errors import ConfigError, UnknownName, check_known
from costgym.simulators.files import write_atomically

if TYPE_CHECKING:
    from costgym.experiments.pages.episode_report import EpisodeReport

FORMATS = ("text", "png", "svg", "html", "gif")
THEMES = ("light", "dark")


def show(
    world: WorldOptions,
    what: Annotated[
        list[str] | None,
        argument(
            "An agent, which plays; or a trajectory file, collection, leaderboard run or submission. Two are compared.", "WHAT"
        ),
    ] = None,
    episode: Annotated[
        str | None, option("Recorded episode: its index or task, after the name of its file or agent.", "[KEY/]INDEX")
    ] = None,
    agent: Annotated[str, option("Agent that plays if no argument says so.")] = "react",
    env: EnvName = None,
    task: Annotated[int, option("Number of the task within the split.")] = 0,
    seed: Seed = 0,
    model: Model = "simulated",
    format: Annotated[str, option("text, png, svg or html; gif of two.")] = "text",
    theme: Annotated[str, option("Of a gif or png of two: light or dark; svg and html follow the reader.")] = "light",
    out: Annotated[Path | None, option("File to write; text is also printed.", "FILE")] = None,
) -> None:
    """Show an episode: its calls over time, messages, costs and grade. Two agents are shown side by side.

    Example: `costgym show react --task 7`

    Example: `costgym show leaderboard --episode react/0 --format png`

    Example: `costgym show react react+btp --budget price=30 --format svg`
    """
    check_known("format", format, FORMATS)
    check_known("theme", theme, THEMES)
    names = list(what or [agent])
    if len(names) > 2:
        raise ConfigError("WHAT", f"expected one or two agents or recordings, got {len(names)}")
    if format == "gif" and len(names) < 2:
        raise ConfigError("--format", "a gif shows two agents, such as `costgym show react react+btp --format gif`")
    recordings = _recordings(names, env) if what else []
    if episode is not None and not recordings:
        raise ConfigError("--episode", "expected the path of a recording too; or choose an episode to play with --task")
    if recordings:
        from costgym.experiments.pages.episode_report import report_recorded

        reports = [report_recorded(path, episode, world.data) for path in recordings]
        chosen = (episode or "0").replace("/", "-")
    else:
        _, view = entry_and_id(names[0], env, world)  # the second plays where the first does
        reports = [_play(name, view, task, world, seed, model) for name in names]
        chosen = str(task)
    if format == "text":
        text = "\n\n".join(report.text for report in reports)
        typer.echo(text, nl=False)
        if out is not None:
            write_atomically(out, text)
        return
    target = out or Path(f"{'episode' if len(reports) == 1 else 'two-agents'}-{chosen}.{format}")
    write_atomically(target, _drawn(reports, format, theme))
    typer.echo(str(target))


def _recordings(names: list[str], env: str | None) -> list[Path]:
    """The paths, if these are recordings; empty for agents."""
    recordings = [Path(name) for name in names if _is_recording(name, env)]
    if recordings and len(recordings) < len(names):
        raise ConfigError("WHAT", f"expected two agents or two recordings, got {' and '.join(names)}")
    for path in recordings:
        expect_path(path)
    return recordings


def _is_recording(name: str, env: str | None) -> bool:
    """Return whether a name is a path; what is neither a file nor an agent is one if it looks like one."""
    if Path(name).exists():
        return True
    try:
        find_player(name, env)
    except UnknownName:
        if os.sep in name or Path(name).suffix:
            return True
        raise
    return False


def _drawn(reports: "list[EpisodeReport]", format: str, theme: str) -> str | bytes:
    report, *others = reports
    if others:
        from costgym.experiments.pages.two_agents import draw_two

        return draw_two(report, others[0], format, theme)
    if format != "png":
        return report.svg() if format == "svg" else report.html()
    from PIL import Image

    store = BytesIO()
    Image.fromarray(report.png()).save(store, "PNG")
    return store.getvalue()


def _play(agent: str, env: str | None, task: int, options: WorldOptions, seed: int, model: str) -> "EpisodeReport":
    from costgym.envs.base import base_env
    from costgym.experiments.pages.episode_report import EpisodeReport, episode_text
    from costgym.experiments.play.trajectories.record import record
    from costgym.experiments.play.trajectories.replay import replay_steps

    player, world = make_player(agent, env, options, seed, model)
    view = base_env(world)
    numbers = view.numbers
    if not 0 <= task < len(numbers):
        raise ConfigError("--task", f"expected a number from 0 to {len(numbers) - 1}, got {task}")
    recorded, _ = record(world, player, numbers[task], seed)
    steps = list(replay_steps(world, recorded))
    view.give_up()
    name = f"{agent} plays task {view.account().task.id}, seed {seed}"
    return EpisodeReport(name, f"{name}\n\n{episode_text(view, steps)}", view.chart(), world, recorded)
