"""`costgym rerun`: run a submission's agents again on secret seeds, in secret worlds."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ...simulators.errors import ConfigError
from ..options import JsonFile, Quiet
from ..output import Progress


def rerun(
    submission: Annotated[Path | None, typer.Argument(help="The submission's folder.")] = None,
    secret_seed: Annotated[
        Path | None, typer.Option("--secret-seed", metavar="FILE", help="The secret; - reads it from standard input.")
    ] = None,
    new_secret: Annotated[
        Path | None, typer.Option("--new-secret", metavar="FILE", help="Draw a secret, print the hash to publish, and stop.")
    ] = None,
    commitment: Annotated[str | None, typer.Option("--commitment", metavar="HASH", help="The hash that was published.")] = None,
    code: Annotated[Path | None, typer.Option("--code", metavar="DIR", help="Where agents of one's own lie.")] = None,
    episodes: Annotated[
        int | None, typer.Option("--episodes", min=1, help="Of every row; by default as many as were handed in.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="FILE", help="Plans: an outcome table of `build-table` that nobody else has."),
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the rerun; it is verified like any run.")] = Path(
        "rerun"
    ),
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Run a submission's agents again, each in a process without a network and without the world, on seeds nobody knew.

    Generated worlds are generated anew from the secret. Nothing that tells the seed or the world is written before the last of
    those processes has ended, and the secret's file is hidden from them where the system can. Other files are not: rerun code
    that you do not trust on a machine of its own.

    Example: `costgym rerun theirs --secret-seed secret.txt --commitment 9f86d081...`
    """
    from ...experiments.board.reruns.process_agent import hides_files, isolates_network
    from ...experiments.board.reruns.rerun import new_secret as draw
    from ...experiments.board.reruns.rerun import rerun as run_again
    from ...experiments.pages.leaderboard_page import pages_of
    from ...experiments.play.files import write_atomically

    if new_secret is not None:
        typer.echo(draw(new_secret))
        return
    if submission is None or secret_seed is None:
        raise ConfigError("--secret-seed", "expected a submission and a secret; --new-secret FILE draws one")
    if not isolates_network():
        typer.echo("warning: this system gives no process a network of its own; the agents can reach yours", err=True)
    if str(secret_seed) != "-" and not hides_files():
        typer.echo("warning: this system hides no file from a process; hand the secret over by --secret-seed -", err=True)
    with Progress("running again", quiet) as progress:
        rows = run_again(submission, secret_seed, out, commitment, code, episodes, progress.update, data, pages=pages_of)
    for row in rows:
        said = "agrees" if row.agrees else "FALLS"
        limits = ", ".join(f"{name} {value}" for name, value in {**row.settings, **row.budget}.items())
        typer.echo(f"{said:7} {row.track} {row.agent} ({limits}): {row.said()}")
    if json_file is not None:
        document = [{**asdict(row), "agrees": row.agrees} for row in rows]
        write_atomically(json_file, json.dumps(document, indent=1) + "\n")
    if not all(row.agrees for row in rows):
        raise typer.Exit(1)
