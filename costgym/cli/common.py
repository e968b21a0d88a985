"""What the commands share: options, progress, an agent with its environment."""

from __future__ import annotations

import json
import os
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..simulators.errors import ConfigError

if TYPE_CHECKING:
    from ..experiments.execution.engine import Engine

Seed = Annotated[int, typer.Option("--seed", help="Same seed, same bytes.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar, no table.")]
JsonFile = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Also write the figures as JSON.")]
ScenarioName = Annotated[
    str | None, typer.Option("--scenario", metavar="NAME|FILE", help="A scenario of `costgym scenarios`, or a YAML file.")
]
Data = Annotated[Path | None, typer.Option("--data", metavar="DIR", help="Folder that the scenario reads.")]
Split = Annotated[str, typer.Option("--split", help="train or test.")]
BudgetText = Annotated[
    str | None, typer.Option("--budgets", "--budget", metavar="LIMITS", help="price=10,20,40 or price=20;seconds=60")
]
Model = Annotated[
    str, typer.Option("--model", help="Behind agents that need one: simulated, openai:NAME, local:FOLDER[,adapter=DIR].")
]
Prices = Annotated[
    Path | None, typer.Option("--prices", metavar="FILE", help="What a real model's tokens cost: a dated table, in YAML.")
]
Cache = Annotated[
    Path | None, typer.Option("--cache", metavar="DIR", help="Keeps a real model's replies; they are charged all the same.")
]
StoreUrl = Annotated[
    str | None,
    typer.Option("--store", metavar="URL", help="Results in SQL: sqlite:///FILE, a file, or postgresql://HOST/DATABASE"),
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", help="Processes; one by default. On a cluster: tasks at a time. Results do not depend on it."),
]
EngineName = Annotated[str, typer.Option("--engine", help="local, or ray: a Ray cluster. Results do not depend on it.")]
RayAddress = Annotated[
    str | None, typer.Option("--ray-address", metavar="HOST:PORT", help="A running cluster; without it one is started here.")
]
Grading = Annotated[str, typer.Option("--grading", help="What counts as a pass: strict (every fact) or judge (lenient).")]
EnvName = Annotated[
    str | None, typer.Option("--env", metavar="ID", help="An environment of `costgym envs`; the agent's own by default.")
]
Tasks = Annotated[str | None, typer.Option("--tasks", help="OpenCATP: sequential, nonsequential or all, which is the default.")]
Alpha = Annotated[float | None, typer.Option("--alpha", help="OpenCATP: weight of the score against the price; 0.5.")]
PlanProfile = Annotated[
    str | None, typer.Option("--profile", metavar="NAME|FILE", help="OpenCATP: what tools cost, v100 by default.")
]


@dataclass(frozen=True, slots=True)
class PlanWorld:
    """What the views of OpenCATP are made from, as far as it was said."""

    tasks: str | None = None
    alpha: float | None = None
    profile: str | None = None


def make_player(
    agent: str,
    env: str | None,
    scenario: str | None,
    data: Path | None,
    budget: str | None,
    split: str,
    grading: str,
    enforcement: str,
    seed: int,
    model: str,
    prices: Path | None = None,
    cache: Path | None = None,
    usefulness: Path | None = None,
    plans: PlanWorld | None = None,
) -> tuple[Any, Any]:
    """An agent and its environment; `plans` is of the OpenCATP views alone."""
    from ..agents.btp.usefulness_model import load_usefulness
    from ..agents.models.named import priced_for
    from ..agents.registry import make_agent, needs_experience
    from ..envs.registration import make
    from ..experiments.training.data.experience import collect_experience
    from ..simulators.ledger import Budget
    from ..simulators.scenario import load_scenario

    if seed < 0:
        raise ConfigError("--seed", f"expected a whole number of at least 0, got {seed}")
    limits = None
    if budget is not None:
        parsed = Budget.parse(budget)
        if len(parsed) > 1:
            raise ConfigError("--budget", f"expected one limit per resource, got {budget!r}")
        limits = parsed[0].as_dict()
    env = env if env is None or "/" in env else f"costgym/{env}"
    given = plans or PlanWorld()
    if _plans(agent, env):
        refused = {
            "--scenario": scenario is not None,
            "--grading": grading != "strict",
            "--enforcement": enforcement != "terminate",
            "--prices": prices is not None,
            "--usefulness": usefulness is not None,
        }
        for option in (name for name, is_given in refused.items() if is_given):
            raise ConfigError(option, "OpenCATP has no such choice; it has --tasks, --alpha, --profile, --budget and --split")
        keep_replies(cache, model)
        return _plan_player(agent, env, data, limits, split, model, given)
    for name in PlanWorld.__slots__:
        if getattr(given, name) is not None:
            raise ConfigError(f"--{name}", f"only OpenCATP has it; {agent} plays elsewhere, or add --env OpenCATP-v0")
    settings = priced_for(load_scenario(scenario or "marketplace", data), model, prices)
    keep_replies(cache, model)
    planning = needs_experience(agent)
    if usefulness is not None and not planning:
        raise ConfigError("--usefulness", f"{agent} judges no results; only agents with +btp do")
    judge = None if usefulness is None else load_usefulness(usefulness)
    experience = collect_experience(settings, episodes=400, seed=seed, usefulness=judge) if planning else None
    player = make_agent(agent, model=model, experience=experience, usefulness=judge)
    env_id = env or player.env_id
    if env_id != player.env_id:
        raise ConfigError("--env", f"{agent} plays in {player.env_id}, not in {env_id}")
    world = make(
        env_id,
        scenario=settings,
        split=split,
        budget=limits,
        grading=grading,
        enforcement=enforcement,
        max_steps=400,
        disable_env_checker=True,
    )
    return player, world


def _plans(agent: str, env: str | None) -> bool:
    """The agent is to play in a view of OpenCATP."""
    from ..agents.custom import is_own, own_agent
    from ..agents.opencatp import is_planner
    from ..agents.registry import agent_names

    if env is not None:
        return env in PLAN_VIEWS
    return own_agent(agent).env_id in PLAN_VIEWS if is_own(agent) else is_planner(agent) and agent not in agent_names()


def _plan_player(
    agent: str,
    env: str | None,
    data: Path | None,
    limits: dict[str, float] | None,
    split: str,
    model: str,
    plans: PlanWorld,
) -> tuple[Any, Any]:
    """The same over the OpenCATP tools; `data` is the file of an outcome table."""
    from ..agents.custom import is_own, own_agent
    from ..agents.opencatp import make_plan_agent
    from ..envs.registration import make

    player = own_agent(agent) if is_own(agent) else make_plan_agent(agent, env or PLAN_VIEWS[0], model)
    if env is not None and env != player.env_id:
        raise ConfigError("--env", f"{agent} plays in {player.env_id}, not in {env}")
    world = make(
        player.env_id,
        tasks=plans.tasks or "all",
        split=split,
        alpha=0.5 if plans.alpha is None else plans.alpha,
        profile=plans.profile or "v100",
        budget=limits,
        outcomes=None if data is None else str(data),
        disable_env_checker=True,
    )
    return player, world


PLAN_VIEWS = ("costgym/OpenCATP-v0", "costgym/OpenCATPCalls-v0")


def keep_replies(cache: Path | None, model: str) -> None:
    """Let every process of this run keep a real model's replies in a folder."""
    from ..agents.models.named import CACHE_VARIABLE, read_model_name

    if cache is None:
        return
    if read_model_name(model) is None:
        raise ConfigError("--cache", f"{model} is no real model; there is nothing to keep")
    os.environ[CACHE_VARIABLE] = str(cache.resolve())


def workers(
    engine: str, jobs: int | None, address: str | None, model: str = "simulated", default: int | None = 1
) -> AbstractContextManager[Engine]:
    """The engine that was asked for; where nothing was, so many processes of this machine. Workers get what the model reads."""
    from ..agents.models.named import variables_of
    from ..experiments.execution.engine import open_engine

    return open_engine(engine, default if jobs is None and engine == "local" else jobs, address, variables_of(model))


def names_in(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def print_list(rows: list[dict[str, str]], json_file: Path | None) -> None:
    from rich.table import Table

    from ..experiments.files import write_atomically

    if json_file is not None:
        write_atomically(json_file, json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    table = Table(box=None, pad_edge=False)
    for column in rows[0]:
        table.add_column(column, no_wrap=column == next(iter(rows[0])))
    for row in rows:
        table.add_row(*row.values())
    console().print(table)


def console() -> Any:
    from rich.console import Console

    return Console()


class Progress:
    """A progress bar on standard error, or nothing."""

    def __init__(self, what: str, quiet: bool) -> None:
        self._what, self._quiet = what, quiet

    def __enter__(self) -> Progress:
        if not self._quiet:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self._bar = Bar(*columns, console=Console(stderr=True))
            self._task = self._bar.add_task(self._what, total=None)
            self._bar.start()
        return self

    def update(self, done: int, total: int) -> None:
        if not self._quiet:
            self._bar.update(self._task, completed=done, total=total)

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        if not self._quiet:
            self._bar.console.print(text, markup=False, highlight=False)

    def __exit__(self, *exc: object) -> None:
        if not self._quiet:
            self._bar.stop()
