"""`costgym reproduce`: reproduces a paper's table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ..options import Data, JsonFile, Quiet, Seed
from ..output import Progress, console


def reproduce(
    name: Annotated[str, typer.Argument(help="btp, ecoact, deer, toolplanner or catp.")],
    episodes: Annotated[int | None, typer.Option("--episodes", help="Episodes per agent; by default the paper's.")] = None,
    data: Data = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Folder of the runs and a report page; repeating the command continues them."
        ),
    ] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", help="Processes; all processors by default.")] = None,
    steps: Annotated[int | None, typer.Option("--steps", help="catp: optimiser steps of each policy; 800 by default.")] = None,
    seed: Seed = 0,
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Reproduce a paper's table with the simulated model and compare it with the published one.

    Example: `costgym reproduce deer --out deer`
    """
    from ...experiments.lab.papers.page import write_page
    from ...experiments.lab.papers.reproduce import reproduce as rerun
    from ...experiments.lab.papers.tables import print_reproduction
    from ...experiments.play.execution.engine import default_jobs
    from ...experiments.play.files import write_atomically

    with Progress(f"reproducing {name}", quiet) as progress:
        found = rerun(
            name, seed, episodes, jobs or default_jobs(), None if data is None else str(data), out, progress.update, steps
        )
    if json_file is not None:
        write_atomically(json_file, json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    if not quiet:
        print_reproduction(name, found, console())
    if out is not None:
        count = ("" if episodes is None else f" --episodes {episodes}") + ("" if steps is None else f" --steps {steps}")
        page = write_page(name, found, out, f"costgym reproduce {name}{count} --seed {seed}")
        if not quiet:
            typer.echo(f"page: {page.resolve()}")
