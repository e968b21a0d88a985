"""Leaderboards, single agents, single episodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ..simulators.errors import ConfigError
from .common import (
    Alpha,
    BudgetText,
    Cache,
    Data,
    EngineName,
    EnvName,
    Grading,
    Jobs,
    JsonFile,
    Model,
    PlanProfile,
    PlanWorld,
    Prices,
    Progress,
    Quiet,
    RayAddress,
    ScenarioName,
    Seed,
    Split,
    StoreUrl,
    Tasks,
    console,
    keep_replies,
    make_player,
    names_in,
    workers,
)
from .site import check_store, save_run


def leaderboard(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the run; the same folder continues it.")] = Path(
        "leaderboard"
    ),
    suite: Annotated[str, typer.Option("--suite", help="What to run.")] = "quick",
    scenario: ScenarioName = None,
    data: Data = None,
    agents: Annotated[str | None, typer.Option("--agents", metavar="A,B,...", help="Instead of the suite's.")] = None,
    budgets: BudgetText = None,
    episodes: Annotated[int | None, typer.Option("--episodes", help="Tasks per agent and budget.")] = None,
    split: Split = "test",
    grading: Grading = "strict",
    seed: Seed = 0,
    model: Model = "simulated",
    prices: Prices = None,
    cache: Cache = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", help="Processes; all processors by default. Results do not depend on it.")
    ] = None,
    engine: EngineName = "local",
    ray_address: RayAddress = None,
    alpha: Annotated[
        str | None, typer.Option("--alpha", metavar="A,B,...", help="Suite opencatp: weights of the score; 0.5 by default.")
    ] = None,
    profile: Annotated[
        str | None, typer.Option("--profile", metavar="NAME|FILE", help="Suite opencatp: what tools cost; v100 by default.")
    ] = None,
    add: Annotated[
        Path | None, typer.Option("--add", metavar="DIR", help="Add a submission to the run in --out, if replay agrees.")
    ] = None,
    store: StoreUrl = None,
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Rank agents under budgets: a table, leaderboard.json and a page."""
    from ..experiments.files import write_atomically

    if store is not None:
        check_store(store)
    if add is not None:
        from ..experiments.leaderboard.submissions.submission import add as add_submission

        with workers(engine, jobs, ray_address, default=None) as place:
            rows = add_submission(out, add, None if data is None else str(data), engine=place)
        save_run(store, out)
        typer.echo(f"{len(rows)} rows added, verified by replay")
        return
    from ..experiments.leaderboard.board import run
    from ..experiments.leaderboard.run_config import make_run_config
    from ..experiments.leaderboard.table import print_table

    keep_replies(cache, model)
    config = make_run_config(
        suite,
        scenario,
        data,
        names_in(agents),
        budgets,
        episodes,
        split,
        grading,
        seed,
        model,
        prices=prices,
        profile=profile,
        vary=None if alpha is None else {"alpha": _numbers("--alpha", alpha)},
    )
    with workers(engine, jobs, ray_address, model, None) as place, Progress("playing", quiet) as progress:
        board = run(config, out, progress=progress.update, engine=place)
    save_run(store, out)
    if json_file is not None:
        write_atomically(json_file, json.dumps(board.document, indent=1, ensure_ascii=False) + "\n")
    if not quiet:
        print_table(board.document, console())
        typer.echo(f"page: {board.page.resolve()}")


def _numbers(option: str, text: str) -> list[float]:
    try:
        return [float(value) for value in text.split(",")]
    except ValueError:
        raise ConfigError(option, f"expected numbers, got {text!r}; for example 0.3,0.5,0.7") from None


def run(
    agent: Annotated[str, typer.Option("--agent", help="An agent of `costgym agents`.")],
    env: EnvName = None,
    scenario: ScenarioName = None,
    data: Data = None,
    tasks: Tasks = None,
    alpha: Alpha = None,
    profile: PlanProfile = None,
    budget: BudgetText = None,
    episodes: Annotated[int, typer.Option("--episodes", help="How many.")] = 100,
    split: Split = "test",
    grading: Grading = "strict",
    enforcement: Annotated[
        str, typer.Option("--enforcement", help="refuse, terminate or record what passes the budget.")
    ] = "terminate",
    seed: Seed = 0,
    model: Model = "simulated",
    prices: Prices = None,
    cache: Cache = None,
    usefulness: Annotated[
        Path | None, typer.Option("--usefulness", metavar="DIR", help="+btp: judges results by this `train btp` run.")
    ] = None,
    jobs: Jobs = None,
    engine: EngineName = "local",
    ray_address: RayAddress = None,
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Play one agent in one environment and sum up."""
    from ..experiments.files import write_atomically
    from ..experiments.metrics import summarise
    from ..experiments.rollout import rollout

    plans = PlanWorld(tasks, alpha, profile)
    player, world = make_player(
        agent, env, scenario, data, budget, split, grading, enforcement, seed, model, prices, cache, usefulness, plans
    )
    if episodes < 1:
        raise ConfigError("--episodes", f"expected a positive whole number, got {episodes}")
    with workers(engine, jobs, ray_address, model) as place, Progress(f"playing {agent}", quiet) as progress:
        results = rollout(world, player, episodes, seed, lambda done: progress.update(done, episodes), place)
    row = summarise(results, grading, seed=seed)
    if json_file is not None:
        write_atomically(json_file, json.dumps(row, indent=1) + "\n")
    if not quiet:
        for name in _SUMMARY:
            interval = row["ci95"].get(name)
            value = row[name]
            if value is not None:
                typer.echo(f"{name:32} {value:10.4f}" + (f"  [{interval[0]:.4f}, {interval[1]:.4f}]" if interval else ""))


_SUMMARY = (
    "pass_rate",
    "pass_rate_under_budget",
    "judged_pass_rate",
    "judged_pass_rate_under_budget",
    "average_cost",
    "budget_failure_rate",
    "quality_of_plan",
    "regret",
    "average_seconds",
    "average_tokens",
    "agent_error_rate",
    "tool_error_rate",
    "infrastructure_error_rate",
)
