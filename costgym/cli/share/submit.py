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
    name: Annotated[str, typer.Option("--name", help="What the submission is called.")],
    contact: Annotated[str, typer.Option("--contact", help="Who to ask.")],
    agents: Annotated[str | None, typer.Option("--agents", metavar="A,B,...", help="Only these.")] = None,
    url: Annotated[str, typer.Option("--url", help="Where more is to be read; https.")] = "",
    description: Annotated[str, typer.Option("--description", help="What the agents are, in a few sentences.")] = "",
    organisation: Annotated[str, typer.Option("--organisation", help="Whose work it is.")] = "",
    date: Annotated[str, typer.Option("--date", metavar="YYYY-MM-DD", help="Day of the run.")] = "",
    code: Annotated[str, typer.Option("--code", metavar="URL", help="Where the agents' code is; https.")] = "",
    commit: Annotated[str, typer.Option("--commit", help="Commit of that code.")] = "",
    cost: Annotated[str, typer.Option("--cost", help="What the run cost, in money or machine hours.")] = "",
    model: Annotated[str, typer.Option("--model", help="What the agents think with, such as a language model's name.")] = "",
) -> None:
    """Make a submission of a run.

    Example: `costgym submit pack leaderboard --out mine --name ours --contact us@example.org`
    """
    from ...experiments.board.submissions.submission import pack as make

    about = {"url": url, "description": description, "organisation": organisation, "date": date}
    about |= {"code": code, "commit": commit, "cost": cost, "model": model}
    typer.echo(str(make(run, out, name, contact, names_in(agents), **about)))


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
    from ...experiments.board.submissions.submission import validate as check

    with workers(engine, jobs, ray_address) as place:
        verdict = check(folder, None if data is None else str(data), engine=place)
    for problem in verdict.problems[:20]:
        typer.echo(problem, err=True)
    typer.echo(f"{folder}: {verdict.episodes} episodes verified, {len(verdict.problems)} problems")
    if verdict.problems:
        raise typer.Exit(1)
