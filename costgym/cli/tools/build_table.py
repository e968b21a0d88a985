"""`costgym build-table`: execute the vision tools and keep the scores."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..options import Quiet
from .backends import BackendName, Device, Download


def build_table(
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The .npz file to write.")],
    weights: Annotated[
        Path | None,
        typer.Option("--weights", metavar="DIR", help="Folder of the back-end's weights; by default those that ship."),
    ] = None,
    backend: BackendName = "tiny",
    download: Download = False,
    device: Device = "cpu",
    samples: Annotated[int, typer.Option("--samples", min=2, help="Scenes per degradation.")] = 100,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Of the scenes; the shipped ones by default.")] = None,
    quiet: Quiet = False,
) -> None:
    """Execute every chain of tools on every degraded scene and store the scores.

    Example: `costgym build-table --backend published --weights models --samples 10 --out table.npz`
    """
    from ...simulators.opencatp.backends.named import make_backend
    from ...simulators.opencatp.scenes.scene import TABLE_SEED
    from ...simulators.opencatp.scoring.table_build import build_table as execute

    tools = make_backend(backend, weights, download, device)
    chosen = TABLE_SEED if seed is None else seed
    path = execute(out, tools, chosen, samples, progress=None if quiet else typer.echo)
    typer.echo(str(path))
