"""`costgym profile`: measure what the vision tools take here."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from ...simulators.errors import ConfigError
from ..options import Quiet
from ..output import Progress


def profile(
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="The profile, JSON or YAML; name it with `--profile FILE`.")
    ],
    name: Annotated[str, typer.Option("--name", help="Name of the profile.")] = "here",
    backend: Annotated[str, typer.Option("--backend", help="tiny, or published (full-size architectures).")] = "tiny",
    device: Annotated[str, typer.Option("--device", help="cpu or cuda.")] = "cpu",
    levels: Annotated[str, typer.Option("--levels", help="Size levels to measure.")] = "0,1,2,3",
    repeats: Annotated[int, typer.Option("--repeats", help="Runs per tool and level.")] = 5,
    scale: Annotated[
        bool, typer.Option("--scale", help="Scale missing levels from measured ones by the input's size.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Measure time and memory of the tools on this machine.

    Example: `costgym profile --out here.json`
    """
    from ...experiments.profiling.profile import profile as measure

    try:
        chosen = [int(level) for level in levels.split(",")]
    except ValueError:
        raise ConfigError("--levels", f"expected size levels such as 0,1,2,3, got {levels!r}") from None
    today = date.today().isoformat()
    with Progress("measuring", quiet):
        measure(name, out, backend, device, chosen, repeats, scale=scale, date=today)
    if not quiet:
        typer.echo(str(out))
