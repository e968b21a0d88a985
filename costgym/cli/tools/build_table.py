"""`costgym build-table`: execute the vision tools and keep the scores."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

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
    images: Annotated[
        Path | None, typer.Option("--images", metavar="DIR", help="Images of your own, listed in its images.jsonl.")
    ] = None,
    image_size: Annotated[int, typer.Option("--image-size", metavar="PX", help="--images: their width and height.")] = 60,
    image_scorer: Annotated[str, typer.Option("--image-scorer", help="ours, vit:MODEL or clip:MODEL.")] = "ours",
    text_scorer: Annotated[str, typer.Option("--text-scorer", help="ours or bertscore:MODEL.")] = "ours",
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Of the scenes; the shipped ones by default.")] = None,
    quiet: Quiet = False,
) -> None:
    """Execute every chain of tools on every degraded scene and store the scores.

    Example: `costgym build-table --backend published --weights models --samples 10 --out table.npz`
    """
    from ...simulators.opencatp.backends.named import make_backend
    from ...simulators.opencatp.scenes.own_images import read_images
    from ...simulators.opencatp.scenes.scene import TABLE_SEED
    from ...simulators.opencatp.scoring.scorers import OURS
    from ...simulators.opencatp.scoring.scorers import image_scorer as make_image_scorer
    from ...simulators.opencatp.scoring.scorers import text_scorer as make_text_scorer
    from ...simulators.opencatp.scoring.table_build import build_table as execute

    tools = make_backend(backend, weights, download, device)
    chosen = TABLE_SEED if seed is None else seed
    own = None if images is None else read_images(images, image_size)
    scorers: dict[str, Any] = {}
    if (image_scorer, text_scorer) != (OURS, OURS):
        scorers = {
            "image_scorer": make_image_scorer(image_scorer, download, device),
            "text_scorer": None if text_scorer == OURS else make_text_scorer(text_scorer, download, device),
        }
    path = execute(out, tools, chosen, samples, progress=None if quiet else typer.echo, images=own, **scorers)
    typer.echo(str(path))
