"""Recorded trajectories: collecting, exporting, listing, verifying and submitting them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

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
    Tasks,
    make_player,
    names_in,
    print_list,
    workers,
)


def collect(
    agent: Annotated[str, typer.Option("--agent", help="Who plays.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the collection; the same folder continues it.")],
    env: EnvName = None,
    scenario: ScenarioName = None,
    data: Data = None,
    tasks: Tasks = None,
    alpha: Alpha = None,
    profile: PlanProfile = None,
    budget: BudgetText = None,
    episodes: Annotated[int, typer.Option("--episodes", help="How many.")] = 100,
    split: Split = "train",
    grading: Grading = "strict",
    enforcement: Annotated[
        str, typer.Option("--enforcement", help="refuse, terminate or record what passes the budget.")
    ] = "terminate",
    seed: Seed = 0,
    model: Model = "simulated",
    prices: Prices = None,
    cache: Cache = None,
    format: Annotated[str, typer.Option("--format", help="jsonl; or minari, parquet, hf, messages beside it.")] = "jsonl",
    jobs: Jobs = None,
    engine: EngineName = "local",
    ray_address: RayAddress = None,
    quiet: Quiet = False,
) -> None:
    """Record an agent's episodes; a kill loses at most the one in flight."""
    from ..experiments.trajectories.collect import collect as record_episodes

    plans = PlanWorld(tasks, alpha, profile)
    player, world = make_player(
        agent, env, scenario, data, budget, split, grading, enforcement, seed, model, prices, cache, plans=plans
    )
    with workers(engine, jobs, ray_address, model) as place, Progress(f"recording {agent}", quiet) as progress:
        path = record_episodes(world, player, episodes, out, seed, progress.update, place)
    if not quiet:
        typer.echo(str(path))
    if format != "jsonl":
        from ..experiments.trajectories.export.formats import export as write

        name = f"costgym/{_as_id(agent)}-v0" if format == "minari" else out / format
        written = write(path, format, name)
        if not quiet:
            typer.echo(str(written))


def _as_id(agent: str) -> str:
    """An agent's name as Minari lets a dataset be called."""
    return re.sub(r"[^A-Za-z0-9_]+", "-", agent).strip("-")


def verify(
    path: Annotated[Path, typer.Argument(help="A trajectory file, or the folder of a collection, a run or a submission.")],
    data: Data = None,
    jobs: Jobs = None,
    engine: EngineName = "local",
    ray_address: RayAddress = None,
    quiet: Quiet = False,
) -> None:
    """Replay recorded episodes and re-derive every figure."""
    from ..experiments.verify import verify as replay_all

    with workers(engine, jobs, ray_address) as place:
        verdict = replay_all(path, None if data is None else str(data), engine=place)
    for problem in verdict.problems[:20]:
        typer.echo(problem, err=True)
    if len(verdict.problems) > 20:
        typer.echo(f"... and {len(verdict.problems) - 20} more", err=True)
    if not quiet:
        typer.echo(f"{verdict.path}: {verdict.episodes} episodes verified, {len(verdict.problems)} problems")
    if not verdict.verified:
        raise typer.Exit(1)


def export(
    path: Annotated[Path, typer.Argument(help="A trajectory file, or the folder of a collection.")],
    format: Annotated[str, typer.Option("--format", help="minari, parquet, hf, messages or experience.")],
    out: Annotated[str, typer.Option("--out", metavar="NAME", help="File or folder; for minari the dataset's id.")],
    kind: Annotated[str | None, typer.Option("--kind", help="messages: sft or dpo.")] = None,
    storage: Annotated[str | None, typer.Option("--storage", help="minari: hdf5, arrow or parquet.")] = None,
    data: Data = None,
    quiet: Quiet = False,
) -> None:
    """Write recorded trajectories in another format."""
    from ..experiments.trajectories.export.formats import export as write

    options = {"kind": kind, "storage": storage, "data": None if data is None else str(data)}
    written = write(path, format, out, **{name: value for name, value in options.items() if value is not None})
    if not quiet:
        typer.echo(str(written))


def datasets(
    folder: Annotated[Path, typer.Argument(help="Folder to look through.")] = Path(),
    check: Annotated[bool, typer.Option("--check", help="Replay every episode and compare.")] = False,
    data: Data = None,
    json_file: JsonFile = None,
) -> None:
    """The datasets in a folder, and whether they hold."""
    from dataclasses import asdict

    from ..experiments.trajectories.datasets import check_dataset, list_datasets

    rows = []
    for found in list_datasets(folder):
        row = {name: str(value) for name, value in asdict(found).items()}
        if check:
            problems = check_dataset(found.path, None if data is None else str(data))
            row["holds"] = "yes" if not problems else problems[0]
        rows.append(row)
    if rows:
        print_list(rows, json_file)
    else:
        typer.echo(f"no datasets in {folder}")
    if check and any(row["holds"] != "yes" for row in rows):
        raise typer.Exit(1)


submit = typer.Typer(help="Leaderboard submissions: a folder that anyone can verify by replay.", no_args_is_help=True)


@submit.command()
def pack(
    run: Annotated[Path, typer.Argument(help="Folder of a leaderboard run that has ended.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the submission.")],
    name: Annotated[str, typer.Option("--name", help="What the submission is called.")],
    contact: Annotated[str, typer.Option("--contact", help="Who to ask.")],
    agents: Annotated[str | None, typer.Option("--agents", metavar="A,B,...", help="Only these.")] = None,
) -> None:
    """Make a submission of a run."""
    from ..experiments.leaderboard.submissions.submission import pack as make

    typer.echo(str(make(run, out, name, contact, agents=names_in(agents))))


@submit.command()
def validate(
    folder: Annotated[Path, typer.Argument(help="The submission.")],
    data: Data = None,
    jobs: Jobs = None,
    engine: EngineName = "local",
    ray_address: RayAddress = None,
) -> None:
    """Check a submission: its schema, its files, every episode by replay, the rows it claims."""
    from ..experiments.leaderboard.submissions.submission import validate as check

    with workers(engine, jobs, ray_address) as place:
        verdict = check(folder, None if data is None else str(data), engine=place)
    for problem in verdict.problems[:20]:
        typer.echo(problem, err=True)
    typer.echo(f"{folder}: {verdict.episodes} episodes verified, {len(verdict.problems)} problems")
    if verdict.problems:
        raise typer.Exit(1)
