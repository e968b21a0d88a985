"""`costgym submit`: pack and validate leaderboard submissions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..options import Data, EngineName, Jobs, RayAddress
from ..output import PlainCommand, names_in, workers

submit = typer.Typer(help="Leaderboard submissions: a folder that anyone can verify by replay.", no_args_is_help=True)


@submit.command(cls=PlainCommand)
def pack(
    run: Annotated[Path, typer.Argument(help="Folder of a finished leaderboard run.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the submission.")],
    name: Annotated[str, typer.Option("--name", help="Name of the submission.")],
    contact: Annotated[str, typer.Option("--contact", help="Contact for questions.")],
    agents: Annotated[str | None, typer.Option("--agents", metavar="A,B,...", help="Agents to submit; all by default.")] = None,
) -> None:
    """Make a submission of a run.

    Example: `costgym submit pack leaderboard --out mine --name ours --contact us@example.org`
    """
    from ...experiments.leaderboard.submissions.submission import pack as make

    typer.echo(str(make(run, out, name, contact, agents=names_in(agents))))


@submit.command(cls=PlainCommand)
def validate(
    folder: Annotated[Path, typer.Argument(help="Folder of the submission.")],
    data: Data = None,
    jobs: Jobs = None,
    engine: EngineName = "local",
    ray_address: RayAddress = None,
) -> None:
    """Check a submission: its schema, its files, every episode by replay, the rows it claims.

    Example: `costgym submit validate mine`
    """
    from ...experiments.leaderboard.submissions.submission import validate as check

    with workers(engine, jobs, ray_address) as place:
        verdict = check(folder, None if data is None else str(data), engine=place)
    for problem in verdict.problems[:20]:
        typer.echo(problem, err=True)
    typer.echo(f"{folder}: {verdict.episodes} episodes verified, {len(verdict.problems)} problems")
    if verdict.problems:
        raise typer.Exit(1)
