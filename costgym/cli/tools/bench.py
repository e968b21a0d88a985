"""`costgym bench`: measure steps per second."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ..options import JsonFile, Quiet, Seed
from ..output import console


def bench(
    steps: Annotated[int, typer.Option("--steps", min=1000, help="Steps of each measurement.")] = 50_000,
    seed: Seed = 0,
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Measure steps per second, compared with Gymnasium's CartPole.

    Example: `costgym bench`
    """
    from ...experiments.lab.benchmarking.bench import measure, print_bench
    from ...experiments.play.files import write_atomically

    report = measure(steps, seed)
    if json_file is not None:
        write_atomically(json_file, json.dumps(report, indent=1) + "\n")
    if not quiet:
        print_bench(report, console())
