"""`costgym datasets`: what a folder holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..options import Data, JsonFile
from ..output import print_list


def datasets(
    folder: Annotated[Path, typer.Argument(help="Folder to search.")] = Path(),
    check: Annotated[bool, typer.Option("--check", help="Replay every episode and compare it with its record.")] = False,
    data: Data = None,
    json_file: JsonFile = None,
) -> None:
    """List the datasets in a folder, and check them.

    Example: `costgym datasets . --check`
    """
    from dataclasses import asdict

    from ...experiments.trajectories.datasets import check_dataset, list_datasets

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
