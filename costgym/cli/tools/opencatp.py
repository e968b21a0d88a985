"""`costgym opencatp`: execute and measure the vision tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ...experiments.fit.profile_settings import Backend, Device, Download, ProfileSettings
from ...simulators.bounds import Number, option
from ..bridge import Verbs
from ..options import Quiet
from ..output import Progress

opencatp = Verbs(help="Execute and measure the vision tools of OpenCATP.", no_args_is_help=True)


@opencatp.command()
def build_table(
    out: Annotated[Path, option("The .npz file to write.", "FILE")],
    weights: Annotated[Path | None, option("Folder of the back-end's weights; by default those that ship.", "DIR")] = None,
    backend: Backend = "tiny",
    download: Download = False,
    device: Device = "cpu",
    samples: Annotated[int, option("Scenes per degradation.", ge=2)] = 100,
    images: Annotated[Path | None, option("Folder with your own images, listed in its images.jsonl.", "DIR")] = None,
    image_size: Annotated[int, option("--images: their width and height.", "PX")] = 60,
    image_scorer: Annotated[str, option("ours, vit:MODEL or clip:MODEL.")] = "ours",
    text_scorer: Annotated[str, option("ours or bertscore:MODEL.")] = "ours",
    seed: Annotated[Number | None, option("Seed of the scenes; the shipped ones by default.")] = None,
    quiet: Quiet = False,
) -> None:
    """Execute every chain of tools on every degraded scene and store the scores.

    Example: `costgym opencatp build-table --backend published --weights models --samples 10 --out table.npz`
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


@opencatp.command()
def profile(
    out: Annotated[Path, option("The profile, JSON or YAML; use it with `--profile FILE`.", "FILE")],
    settings: ProfileSettings,
    quiet: Quiet = False,
) -> None:
    """Measure time and memory of the tools on this machine.

    Example: `costgym opencatp profile --out here.json`
    """
    from datetime import date

    from ...experiments.fit.profile import profile as measure

    with Progress("measuring", quiet) as progress:
        measure(out, settings, date=date.today().isoformat(), progress=progress.say)
    if not quiet:
        typer.echo(str(out))
