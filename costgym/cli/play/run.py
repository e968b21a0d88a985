"""`costgym run`: play one agent and sum up."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ...simulators.errors import ConfigError
from ..options import (
    Alpha,
    Batch,
    BudgetText,
    Cache,
    Data,
    Documents,
    Enforcement,
    EngineName,
    EnvName,
    Grading,
    Jobs,
    JsonFile,
    Model,
    PlanProfile,
    Prices,
    Quiet,
    RayAddress,
    ScenarioName,
    Seed,
    SpendLimit,
    Split,
    Tasks,
)
from ..output import Progress, workers
from ..players import WorldOptions, keep_replies, make_player, make_spending

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


def run(
    agent: Annotated[str, typer.Option("--agent", help="An agent of `costgym agents`.")],
    env: EnvName = None,
    scenario: ScenarioName = None,
    data: Data = None,
    tasks: Tasks = None,
    alpha: Alpha = None,
    profile: PlanProfile = None,
    budget: BudgetText = None,
    episodes: Annotated[int, typer.Option("--episodes", min=1, help="Number of episodes.")] = 100,
    split: Split = "test",
    grading: Grading = None,
    enforcement: Enforcement = None,
    documents: Documents = None,
    seed: Seed = 0,
    model: Model = "simulated",
    prices: Prices = None,
    cache: Cache = None,
    spend_limit: SpendLimit = None,
    usefulness: Annotated[
        Path | None, typer.Option("--usefulness", metavar="DIR", help="+btp: classifier of results, a run of `train btp`.")
    ] = None,
    experience: Annotated[
        str | None,
        typer.Option("--experience", metavar="EXPLORER:USES|FILE", help="+btp: past uses a tool, or a file of them."),
    ] = None,
    batch: Batch = 1,
    jobs: Jobs = None,
    engine: EngineName = "local",
    ray_address: RayAddress = None,
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Play one agent in one environment and print its figures.

    Example: `costgym run --agent react --budget price=20`
    """
    from ...experiments.execution.batched import batch_of
    from ...experiments.files import write_atomically
    from ...experiments.metrics import summarise
    from ...experiments.rollout import expect_spending, rollout

    if spend_limit is not None and cache is None:
        advice = "the replies that were paid for are kept there, and the same command with a higher limit goes on from them"
        raise ConfigError("--spend-limit", f"expected --cache DIR too: {advice}")
    options = WorldOptions(
        scenario,
        data,
        budget,
        split,
        grading,
        enforcement,
        tasks=tasks,
        alpha=alpha,
        profile=profile,
        prices=prices,
        documents=documents,
    )
    keep_replies(cache, model)
    place_of = workers(engine, jobs, ray_address, model, batch=batch)
    with place_of as place, Progress(f"playing {agent}", quiet) as progress:
        player, world = make_player(agent, env, options, seed, model, usefulness, experience, batch_of(place))
        spending = make_spending(model, prices, spend_limit, progress.say) if player.model else None
        if spending is not None:
            free = replace(options, prices=None)
            simulated, _ = make_player(agent, env, free, seed, "simulated", usefulness, experience)
            expect_spending(spending, world, simulated, episodes, seed)

        def update(done: int) -> None:
            progress.update(done, episodes)

        results = rollout(world, player, episodes, seed, update, place, spending)
    if spending is not None and not results:
        spending.check(0, episodes)
    void = sum(result.void for result in results)
    if void:
        what = "none of the" if void == len(results) else f"{void} of"
        said = [result.void_reason for result in results if result.void_reason]
        why = said[0] if said else "the model's server or another back-end is out of reach or keeps failing"
        typer.echo(
            f"error: {what} {len(results)} episodes could {'not ' if void < len(results) else ''}be played: {why}", err=True
        )
    if void == len(results):
        raise typer.Exit(1)
    row = summarise(results, grading or "strict", seed=seed)
    if json_file is not None:
        write_atomically(json_file, json.dumps(row, indent=1) + "\n")
    if not quiet:
        for name in _SUMMARY:
            interval = row["ci95"].get(name)
            value = row[name]
            if value is not None:
                typer.echo(f"{name:32} {value:10.4f}" + (f"  [{interval[0]:.4f}, {interval[1]:.4f}]" if interval else ""))
    if spending is not None:
        spending.check(len(results), episodes)
