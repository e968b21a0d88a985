"""`costgym collect`: record episodes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

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
    Model,
    PlanProfile,
    Prices,
    Quiet,
    RayAddress,
    ScenarioName,
    Seed,
    Split,
    Tasks,
)
from ..output import Progress, workers
from ..players import WorldOptions, keep_replies, make_player


def collect(
    agent: Annotated[str, typer.Option("--agent", help="Agent that plays, from `costgym agents`.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the collection; the same folder continues it.")],
    env: EnvName = None,
    scenario: ScenarioName = None,
    data: Data = None,
    tasks: Tasks = None,
    alpha: Alpha = None,
    profile: PlanProfile = None,
    budget: BudgetText = None,
    episodes: Annotated[int, typer.Option("--episodes", min=1, help="Number of episodes.")] = 100,
    split: Split = "train",
    grading: Grading = None,
    enforcement: Enforcement = None,
    documents: Documents = None,
    seed: Seed = 0,
    model: Model = "simulated",
    prices: Prices = None,
    cache: Cache = None,
    format: Annotated[str, typer.Option("--format", help="jsonl; minari, parquet, hf or messages in addition.")] = "jsonl",
    batch: Batch = 1,
    jobs: Jobs = None,
    engine: EngineName = "local",
    ray_address: RayAddress = None,
    quiet: Quiet = False,
) -> None:
    """Record an agent's episodes; an interrupted run can be continued.

    Example: `costgym collect --agent greedy --episodes 100 --out greedy`
    """
    from ...experiments.execution.batched import batch_of
    from ...experiments.trajectories.collect import collect as record_episodes

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
    with place_of as place, Progress(f"recording {agent}", quiet) as progress:
        player, world = make_player(agent, env, options, seed, model, at_hand=batch_of(place))
        path = record_episodes(world, player, episodes, out, seed, progress.update, place)
    if not quiet:
        typer.echo(str(path))
    if format != "jsonl":
        from ...experiments.trajectories.export.formats import export as write

        name = f"costgym/{_as_id(agent)}-v0" if format == "minari" else out / format
        written = write(path, format, name)
        if not quiet:
            typer.echo(str(written))


def _as_id(agent: str) -> str:
    """An agent's name in the characters that Minari allows in a dataset's id."""
    return re.sub(r"[^A-Za-z0-9_]+", "-", agent).strip("-")
