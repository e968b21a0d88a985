"""Recorded trajectories: collecting and verifying them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .common import (
    BudgetText,
    Data,
    Grading,
    Progress,
    Quiet,
    ScenarioName,
    Seed,
    Split,
    make_player,
)


def collect(
    agent: Annotated[str, typer.Option("--agent", help="Who plays.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the collection; the same folder continues it.")],
    scenario: ScenarioName = None,
    data: Data = None,
    budget: BudgetText = None,
    episodes: Annotated[int, typer.Option("--episodes", help="How many.")] = 100,
    split: Split = "train",
    grading: Grading = "strict",
    enforcement: Annotated[
        str, typer.Option("--enforcement", help="refuse, terminate or record what passes the budget.")
    ] = "terminate",
    seed: Seed = 0,
    model: Annotated[str, typer.Option("--model", help="Language model behind the agent, if it needs one.")] = "simulated",
    quiet: Quiet = False,
) -> None:
    """Record an agent's episodes; a kill loses at most the one in flight."""
    from ..experiments.collect import collect as record_episodes

    player, world = make_player(agent, None, scenario, data, budget, split, grading, enforcement, seed, model)
    with Progress(f"recording {agent}", quiet) as progress:
        path = record_episodes(world, player, episodes, out, seed, progress.update)
    if not quiet:
        typer.echo(str(path))


def verify(
    path: Annotated[Path, typer.Argument(help="A trajectory file, or the folder of a collection.")],
    data: Data = None,
    quiet: Quiet = False,
) -> None:
    """Replay recorded episodes and re-derive every figure."""
    from ..experiments.verify import verify as replay_all

    verdict = replay_all(path, None if data is None else str(data))
    for problem in verdict.problems[:20]:
        typer.echo(problem, err=True)
    if len(verdict.problems) > 20:
        typer.echo(f"... and {len(verdict.problems) - 20} more", err=True)
    if not quiet:
        typer.echo(f"{verdict.path}: {verdict.episodes} episodes verified, {len(verdict.problems)} problems")
    if not verdict.verified:
        raise typer.Exit(1)
