"""The executed OpenCATP tools: training them, tabulating what they do, measuring what they cost."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from ..simulators.errors import ConfigError
from .common import Progress, Quiet, Seed


def build_tools(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the weights; the same folder continues.")],
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Train the small vision and text networks on generated scenes."""
    from ..experiments.training.vision_tools import build_tools as train
    from .train.common import Messages

    for path in train(out, seed, callback=None if quiet else Messages()).values():
        if not quiet:
            typer.echo(str(path))


def build_table(
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The .npz to write.")],
    weights: Annotated[
        Path | None, typer.Option("--weights", metavar="DIR", help="Of `build-tools`; the shipped ones by default.")
    ] = None,
    samples: Annotated[int, typer.Option("--samples", help="Scenes per degradation.")] = 100,
    quiet: Quiet = False,
) -> None:
    """Execute every chain of tools on every degraded scene and keep the scores."""
    from ..simulators.opencatp.backends.tiny import TinyBackend
    from ..simulators.opencatp.scoring.table_build import build_table as execute

    if samples < 2:
        raise ConfigError("--samples", f"expected at least 2, got {samples}")
    backend = TinyBackend() if weights is None else TinyBackend(weights)
    path = execute(out, backend, samples=samples, progress=None if quiet else typer.echo)
    typer.echo(str(path))


def profile(
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="The profile, JSON or YAML; name it with `--profile FILE`.")
    ],
    name: Annotated[str, typer.Option("--name", help="What scenarios call it.")] = "here",
    backend: Annotated[str, typer.Option("--backend", help="tiny, or published (full-size architectures).")] = "tiny",
    device: Annotated[str, typer.Option("--device", help="cpu or cuda.")] = "cpu",
    levels: Annotated[str, typer.Option("--levels", help="Size levels to measure.")] = "0,1,2,3",
    repeats: Annotated[int, typer.Option("--repeats", help="Runs per tool and level.")] = 5,
    scale: Annotated[
        bool, typer.Option("--scale", help="Fill levels that were not measured by the size of the input.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Measure time and memory of the tools on this machine."""
    from ..experiments.profiling.profile import profile as measure

    try:
        chosen = [int(level) for level in levels.split(",")]
    except ValueError:
        raise ConfigError("--levels", f"expected size levels such as 0,1,2,3, got {levels!r}") from None
    today = date.today().isoformat()
    with Progress("measuring", quiet):
        measure(name, out, backend, device, chosen, repeats, scale=scale, date=today)
    if not quiet:
        typer.echo(str(out))
