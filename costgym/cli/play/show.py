"""`costgym show`: look at one episode."""

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from costgym.cli.options import EnvName, WorldOptions
from costgym.cli.players import make_player
from costgym.experiments.play.options import Model, Seed
from costgym.simulators.bounds import argument, option
from costgym.simulators.errors import ConfigError, check_known

if TYPE_CHECKING:
    from costgym.experiments.pages.episode_report import EpisodeReport

FORMATS = ("text", "png", "svg", "html")


def show(
    world: WorldOptions,
    path: Annotated[
        Path | None, argument("A trajectory file, collection, leaderboard run or submission; without it, an episode is played.")
    ] = None,
    episode: Annotated[
        str | None, option("Recorded episode: its index or task, after the name of its file or agent.", "[KEY/]INDEX")
    ] = None,
    agent: Annotated[str, option("Agent that plays if no recording is given.")] = "react",
    env: EnvName = None,
    task: Annotated[int, option("Number of the task within the split.")] = 0,
    seed: Seed = 0,
    model: Model = "simulated",
    format: Annotated[str, option("text, png, svg or html.")] = "text",
    out: Annotated[Path | None, option("File to write; text is also printed.", "FILE")] = None,
) -> None:
    """Show an episode: its calls over time, messages, costs and grade.

    Example: `costgym show --agent react --task 7`

    Example: `costgym show leaderboard --episode react/0 --format png`
    """
    check_known("format", format, FORMATS)
    from costgym.experiments.pages.episode_report import report_recorded
    from costgym.simulators.files import write_atomically

    if path is not None:
        shown = report_recorded(path, episode, world.data)
        name = f"episode-{(episode or '0').replace('/', '-')}"
    elif episode is not None:
        raise ConfigError("--episode", "expected the path of a recording too; or choose an episode to play with --task")
    else:
        shown = _play(agent, env, task, world, seed, model)
        name = f"episode-{task}"
    if format == "text":
        typer.echo(shown.text, nl=False)
        if out is not None:
            write_atomically(out, shown.text)
        return
    target = out or Path(f"{name}.{format}")
    if format == "png":
        from PIL import Image

        store = BytesIO()
        Image.fromarray(shown.png()).save(store, "PNG")
        write_atomically(target, store.getvalue())
    else:
        write_atomically(target, shown.svg() if format == "svg" else shown.html())
    typer.echo(str(target))


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
