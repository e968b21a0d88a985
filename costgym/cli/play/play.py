"""`costgym play`: a person plays an episode, in the terminal or in a browser."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from costgym.cli.options import EnvName, WorldOptions
from costgym.experiments.play.options import Seed
from costgym.simulators.bounds import option
from costgym.simulators.errors import ConfigError

if TYPE_CHECKING:
    from costgym.experiments.play.game.human import Screen
    from costgym.experiments.play.trajectories.format import Header


def play(
    world: WorldOptions,
    env: EnvName = None,
    task: Annotated[int | None, option("Number of the task within the split; by default the next one.")] = None,
    seed: Seed = 0,
    out: Annotated[Path, option("Folder that keeps the episodes; the same folder continues it.", "DIR")] = Path("human"),
    plain: Annotated[bool, option("No full screen: one line after the other, as in a pipe.", "", "--plain")] = False,
    browser: Annotated[
        Path | None, option("Write a page that plays in a browser: another task each day, or --task.", "DIR")
    ] = None,
    pyodide: Annotated[
        Path | None, option("Pyodide release that --browser copies; by default the page loads it from its project.", "DIR")
    ] = None,
) -> None:
    """Play an episode yourself, and see afterwards how a policy and the optimum did under the same luck.

    The episode is recorded like any agent's, under the name `human`. Example: `costgym play --budget price=15`
    """
    from costgym.agents.base import TEXT, view_of
    from costgym.cli.output import print_table
    from costgym.cli.play.lines import say
    from costgym.envs.base import base_env
    from costgym.envs.registration import make
    from costgym.envs.rendering.chart import number
    from costgym.envs.why import why
    from costgym.experiments.play.collect import open_collection
    from costgym.experiments.play.game.human import Human, line_to_copy, scores
    from costgym.experiments.play.trajectories.format import Header
    from costgym.experiments.play.trajectories.record import record

    env_id = world.env_id(env, TEXT)
    if view_of(env_id) != TEXT:
        raise ConfigError("--env", f"expected a version of MarketplaceChat, which a person can play, got {env_id}")
    played_in = make(env_id, disable_env_checker=True, **world.arguments(env_id))
    view: Any = base_env(played_in)
    header = Header.of(played_in, env_id)
    if pyodide is not None and browser is None:
        raise ConfigError("--pyodide", "expected --browser DIR too, the folder of the page that it is copied to")
    if task is not None and not 0 <= task < len(view.numbers):
        raise ConfigError("--task", f"expected a number from 0 to {len(view.numbers) - 1}, got {task}")
    if browser is not None:
        _write_page(browser, header, task, seed, _command(world, env), pyodide)
        return
    screen = _screen(plain)
    with open_collection(out, header) as (store, played):
        chosen = played if task is None else task
        task_number, world_seed, _ = view.instance(chosen, seed)
        recorded, _ = record(played_in, Human(view, screen), task_number, world_seed, played, crashes="count")
        store.append(recorded.sealed_json(header))
    say("", view.chart().verdict, why(view, recorded.truncated, recorded.crash), "")
    rows = scores(view, header)
    cells = [
        (row.name, "pass" if row.success else "fail", number(row.price), f"{row.seconds:.1f}", str(row.calls)) for row in rows
    ]
    print_table(("", "grade", f"price, {view.scenario.currency}", "seconds", "calls"), cells, left=("", "grade"))
    again = f"{_command(world, env)} --task {chosen % len(view.numbers)}" + (f" --seed {world_seed}" if world_seed else "")
    say("", "To copy:", raw=line_to_copy(view, rows, again))
    say("", "Recorded. See it again:", raw=f"costgym show {shlex.quote(str(out))} --episode {played}")


def _write_page(folder: Path, header: "Header", task: int | None, seed: int, command: str, pyodide: Path | None) -> None:
    from costgym.cli.play.lines import say
    from costgym.experiments.pages.play_page import write_play_page

    size = write_play_page(folder, header, task, seed, command, pyodide)
    say(f"Wrote {folder}, {size / 1e6:.1f} MB. Put it on any web server, or look at it here:")
    say(raw=f"python -m http.server --directory {shlex.quote(str(folder))}")


def _screen(plain: bool) -> "Screen":
    from costgym.cli.play.full_screen import FullScreen, has_full_screen
    from costgym.cli.play.lines import Lines

    return FullScreen() if not plain and has_full_screen() else Lines()


def _command(world: WorldOptions, env: str | None) -> str:
    """The command that plays this world, without task and seed."""
    options = {"env": env, **{name: value for name, value in world.explicit.items() if value != getattr(WorldOptions(), name)}}
    if world.budget is not None:
        options["budget"] = ";".join(f"{name}={limit:g}" for name, limit in world.budget.items())
    words = [
        word for name, value in options.items() if value is not None for word in (f"--{name.replace('_', '-')}", str(value))
    ]
    return shlex.join(["costgym", "play", *words])
