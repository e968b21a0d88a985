"""`costgym export`: records in other formats."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..options import Data, Quiet


def export(
    path: Annotated[Path, typer.Argument(help="A trajectory file, or the folder of a collection.")],
    format: Annotated[str, typer.Option("--format", help="minari, parquet, hf, messages or experience.")],
    out: Annotated[str, typer.Option("--out", metavar="NAME", help="File or folder; for minari the dataset's id.")],
    kind: Annotated[str | None, typer.Option("--kind", help="messages: sft or dpo.")] = None,
    storage: Annotated[str | None, typer.Option("--storage", help="minari: hdf5, arrow or parquet.")] = None,
    data: Data = None,
    quiet: Quiet = False,
) -> None:
    """Write recorded trajectories in another format.

    Example: `costgym export greedy --format parquet --out greedy/parquet`
    """
    from ...experiments.play.export.formats import export as write

    options = {"kind": kind, "storage": storage, "data": None if data is None else str(data)}
    written = write(path, format, out, **{name: value for name, value in options.items() if value is not None})
    if not quiet:
        typer.echo(str(written))
