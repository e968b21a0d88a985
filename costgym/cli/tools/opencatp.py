"""`costgym opencatp`: execute and measure the vision tools."""

from pathlib import Path
from typing import Annotated

import typer

from costgym.cli.options import Quiet
from costgym.cli.output import Progress
from costgym.cli.verbs import Verbs
from costgym.experiments.fit.profile_settings import Backend, Device, Download, Model, ProfileSettings
from costgym.simulators.bounds import Number, option

opencatp = Verbs(help="Execute and measure the vision tools of OpenCATP.")


@opencatp.command()
def build_table(
    out: Annotated[Path, option("The .npz file to write.", "FILE")],
    weights: Annotated[Path | None, option("Folder of the back-end's weights; by default those that ship.", "DIR")] = None,
    backend: Backend = "tiny",
    model: Model = None,
    download: Download = False,
    device: Device = "cpu",
    samples: Annotated[int, option("Scenes per degradation.", ge=2)] = 100,
    seed: Annotated[Number | None, option("Seed of the scenes; the shipped ones by default.")] = None,
    images: Annotated[Path | None, option("Folder of photos, in place of generated scenes.", "DIR")] = None,
    pixels: Annotated[int, option("Width and height that photos are brought to.", ge=16, le=512)] = 96,
    quiet: Quiet = False,
) -> None:
    """Execute every chain of tools on every degraded scene or photo and store the scores.

    Example: `costgym opencatp build-table --backend packaged --images photos --out table.npz`
    """
    from costgym.simulators.opencatp.backends.named import make_backend
    from costgym.simulators.opencatp.scenes.scene import TABLE_SEED
    from costgym.simulators.opencatp.scoring.photos import read_photos
    from costgym.simulators.opencatp.scoring.table_build import build_table as execute

    tools = make_backend(backend, weights, download, device, model)
    chosen = TABLE_SEED if seed is None else seed
    photos = None if images is None else read_photos(images, pixels)
    path = execute(out, tools, chosen, samples, progress=None if quiet else typer.echo, photos=photos)
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

    from costgym.experiments.fit.profile import profile as measure

    with Progress("measuring", quiet) as progress:
        measure(out, settings, date=date.today().isoformat(), progress=progress.say)
    if not quiet:
        typer.echo(str(out))
