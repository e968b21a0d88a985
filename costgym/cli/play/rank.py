"""`costgym rank`: play any command as an agent, metered, and rank it beside ours."""

import re
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from costgym.cli.options import JsonFile, Quiet, requests_and_cost
from costgym.cli.output import Progress, console, prints, save_json
from costgym.experiments.play.options import Data, Model, Prices, ScenarioName, Seed, SpendLimit
from costgym.simulators.bounds import Count, Settings, argument, option
from costgym.simulators.errors import ConfigError, require

if TYPE_CHECKING:
    from costgym.experiments.board.run_config import RunConfig
    from costgym.experiments.serve.command.agent import Command


class EntryOptions(Settings):
    """What is handed in, with `--pack`."""

    pack: Annotated[Path | None, option("Also pack the row as a submission.", "DIR")] = None
    contact: Annotated[str | None, option("--pack: where to send questions.")] = None
    description: Annotated[str, option("--pack: what the agent is, in a few sentences.")] = ""


class CommandOptions(Settings):
    """How the command is started."""

    name: Annotated[str | None, option("Name of the agent in results; by default from the command.", "NAME")] = None
    time_limit: Annotated[float, option("Wall time of an episode, after which it has failed.", "SECONDS", gt=0)] = 300.0
    isolation: Annotated[
        str, option("auto, bubblewrap (the command reaches no other address) or none; the row says which.")
    ] = "auto"


class BoardOptions(Settings):
    """What is played: as `costgym leaderboard` has it, but for the defaults."""

    scenario: ScenarioName = None
    data: Data = None
    budget: Annotated[str, option("Budgets: price=10,20,40 or price=20;seconds=60", "LIMITS", "--budget", "--budgets")] = (
        "price=30"
    )
    episodes: Annotated[Count, option("Number of episodes.")] = 160
    beside: Annotated[
        str | None, option("Agents of ours that play beside it; react by default, none for a real model.", "A,B,...")
    ] = None
    seed: Seed = 0


class RankedModelOptions(Settings):
    """The model that the command asks."""

    model: Model = "simulated"
    prices: Prices = None
    spend_limit: SpendLimit = None


def rank(
    words: Annotated[list[str], argument("The command, started once for each episode.", "-- COMMAND...")],
    *,
    starting: CommandOptions,
    entry: EntryOptions,
    played: BoardOptions,
    asked_model: RankedModelOptions,
    concurrency: Annotated[Count, option("Episodes, and so commands, at once; the results do not depend on it.")] = 4,
    out: Annotated[Path, option("Folder of the run; the same command continues it.")] = Path("costgym-rank"),
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Rank any command: each episode starts it with a metered model, tools and a task.

    Its environment has OPENAI_BASE_URL, ANTHROPIC_BASE_URL, COSTGYM_MCP_URL, COSTGYM_TOOLS_URL, COSTGYM_TASK and
    COSTGYM_BUDGET. The answer is its call of `finish`, or the last line that it writes.

    Example: `costgym rank --episodes 24 -- python my_agent.py`
    """
    _check_platform()
    from costgym.agents.models.simulated import is_simulated
    from costgym.experiments.leaderboard import run
    from costgym.experiments.pages.table import print_table
    from costgym.experiments.play.costs.spending import Spending
    from costgym.experiments.play.execution.concurrent import Concurrent
    from costgym.experiments.play.models.notices import server_notices
    from costgym.experiments.serve.command.agent import Command
    from costgym.experiments.serve.command.process import choose_isolation

    if entry.pack is not None and entry.contact is None:
        raise ConfigError("--pack", "expected --contact too: where to send questions")
    name = f"command:{starting.name or _name_of(words)}"
    model, prices = asked_model.model, asked_model.prices
    others = played.beside if played.beside is not None else "react" if is_simulated(model) else ""
    command = Command(name, tuple(words), choose_isolation(starting.isolation), starting.time_limit)
    config = _config(command, [name, *filter(None, others.split(","))], played, model, prices)
    if command.isolation == "none":
        typer.echo("note: not isolated: the command can reach other addresses, and the row says so", err=True)
    with Progress("playing", quiet) as progress:
        spending = None
        if not is_simulated(model) or asked_model.spend_limit is not None:
            spending = Spending(model, prices, asked_model.spend_limit, progress.say)
            progress.state = partial(requests_and_cost, spending)
        engine = Concurrent(concurrency)
        board = run(config, out, progress=progress.update, engine=engine, spending=spending, players={name: command})
    save_json(json_file, board.document)
    for row in board.document["rows"]:
        for notice in (*server_notices(row), *_crashes(row)):
            typer.echo(f"note: {notice}", err=True)
    shown = prints(quiet, json_file)
    if shown:
        print_table(board.document, console())
        typer.echo(f"page: {board.page.resolve()}")
    if entry.pack is not None and entry.contact is not None:
        from costgym.experiments.board.submissions.submission import pack

        pack(out, entry.pack, name.partition(":")[2], entry.contact, [name], description=entry.description)
        typer.echo(f"packed {entry.pack}", err=not shown)


def _check_platform() -> None:
    if sys.platform == "win32":
        raise ConfigError("rank", "expected Linux or macOS: commands are started and ended as Unix processes")
    for module in ("starlette", "uvicorn", "mcp_types", "mcp"):
        require(module, "serve")


def _config(command: "Command", agents: list[str], played: BoardOptions, model: str, prices: Path | None) -> "RunConfig":
    from costgym.experiments.board.run_config import CommandConfig
    from costgym.experiments.leaderboard import make_run_config

    terms = played.model_dump(include={"scenario", "data", "episodes", "seed"})
    about = CommandConfig(
        name=command.name,
        words=_published(command.words),
        isolation=command.isolation,
        time_limit_s=command.time_limit_s,
    )
    config = make_run_config(agents=agents, budgets=played.budget, model=model, prices=prices, **terms)
    return config.model_copy(update={"command": about})


def _name_of(words: list[str]) -> str:
    """A name for a command: that of the first file among its words, else of its program.

    >>> _name_of(["python", "agents/my_agent.py", "--fast"]), _name_of(["./run.sh"]), _name_of(["npx", "thing"])
    ('my_agent', 'run', 'npx')
    """
    files = [word for word in words if re.fullmatch(r"[^-].*\.\w{1,4}", word)]
    stem = Path((files or words)[0]).stem
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-._")[:60] or "agent"


def _published(words: Iterable[str]) -> tuple[str, ...]:
    """The words of a command without the folders of absolute paths, which are this machine's."""
    return tuple(Path(word).name if Path(word).is_absolute() else word for word in words)


def _crashes(row: dict[str, Any]) -> list[str]:
    """The most frequent reason of crashed episodes."""
    reasons = sorted((row.get("crash_reasons") or {}).items(), key=lambda pair: -pair[1])
    return [f"{row['agent']}: {row['crashed_episodes']} episodes failed: {reasons[0][0]}"] if reasons else []
