"""`costgym profile`: measure what the vision tools take here."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from ...simulators.errors import ConfigError
from ..options import Quiet
from ..output import Progress
from .backends import BackendName, Device, Download


def profile(
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="The profile, JSON or YAML; name it with `--profile FILE`.")
    ],
    name: Annotated[str, typer.Option("--name", help="Name of the profile.")] = "here",
    backend: BackendName = "tiny",
    device: Device = "cpu",
    weights: Annotated[
        Path | None,
        typer.Option(
            "--weights", metavar="DIR", help="Folder of weights; by default networks of the same size with random weights."
        ),
    ] = None,
    download: Download = False,
    tiles: Annotated[
        bool, typer.Option("--tiles", help="Measure a part of an image that would not fit into memory, and multiply.")
    ] = False,
    memory_limit: Annotated[
        float | None, typer.Option("--memory-limit", metavar="MB", help="Most memory of a run; most of the free by default.")
    ] = None,
    levels: Annotated[str, typer.Option("--levels", help="Size levels to measure.")] = "0,1,2,3",
    repeats: Annotated[int, typer.Option("--repeats", help="Runs per tool and level.")] = 5,
    scale: Annotated[
        bool, typer.Option("--scale", help="Scale missing levels from measured ones by the input's size.")
    ] = False,
    processor_time: Annotated[
        bool, typer.Option("--processor-time", help="Count processor time on one thread, where others use the machine too.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Measure time and memory of the tools on this machine.

    Example: `costgym profile --out here.json`
    """
    from ...experiments.fit.profile import profile as measure

    try:
        chosen = [int(level) for level in levels.split(",")]
    except ValueError:
        raise ConfigError("--levels", f"expected size levels such as 0,1,2,3, got {levels!r}") from None
    today = date.today().isoformat()
    with Progress("measuring", quiet) as progress:
        measure(
            name, out, backend, device, chosen, repeats, weights=weights, download=download, tiles=tiles, scale=scale,
            memory_limit_mb=memory_limit, date=today, processor_time=processor_time, progress=progress.say,
        )  # fmt: skip
    if not quiet:
        typer.echo(str(out))
