"""`costgym export`: records in other formats."""

from pathlib import Path
from typing import Annotated

import typer

from ...experiments.play.options import Data
from ...simulators.bounds import argument, option
from ..options import Quiet


def export(
    path: Annotated[Path, argument("A trajectory file, or the folder of a collection.")],
    format: Annotated[str, option("minari, parquet, hf, messages, atif, jsonl, sharegpt or experience.")],
    out: Annotated[str, option("File or folder; for minari the dataset's id.", "NAME")],
    kind: Annotated[str | None, option("messages: sft or dpo.")] = None,
    only: Annotated[str | None, option("clean, passed or all episodes; messages: passed, others: clean.")] = None,
    pairs: Annotated[str | None, option("messages, dpo: pairs of one task under one seed, or task for any seeds.")] = None,
    data: Data = None,
    quiet: Quiet = False,
) -> None:
    """Write recorded trajectories in another format.

    Example: `costgym export greedy --format parquet --out greedy/parquet`
    """
    from ...experiments.play.export.formats import export as write

    options = {"kind": kind, "only": only, "pairs": pairs, "data": data}
    written = write(path, format, out, **{name: value for name, value in options.items() if value is not None})
    if not quiet:
        typer.echo(str(written))
