"""`costgym build-tools`: train the executed vision tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..options import Quiet, Seed


def build_tools(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the weights; the same folder continues.")],
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Train the small vision and text networks on generated scenes.

    Example: `costgym build-tools --out weights`
    """
    from ...experiments.train.vision_tools import build_tools as train
    from ..learn.train.shared import Messages

    for path in train(out, seed, callback=None if quiet else Messages()).values():
        if not quiet:
            typer.echo(str(path))
