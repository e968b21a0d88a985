"""`costgym reproduce`: reproduces a paper's table."""

from pathlib import Path
from typing import Annotated

import typer

from costgym.cli.options import JsonFile, Quiet
from costgym.cli.output import Progress, console, prints, save_json
from costgym.experiments.play.options import Data, Seed
from costgym.simulators.bounds import argument, option


def reproduce(
    name: Annotated[str, argument("btp, ecoact, deer, toolplanner or catp.")],
    episodes: Annotated[int | None, option("Episodes per agent; by default the paper's.")] = None,
    data: Data = None,
    out: Annotated[Path | None, option("Folder of the runs and a report page; the same folder continues them.", "DIR")] = None,
    jobs: Annotated[int | None, option("Processes; all processors by default.")] = None,
    steps: Annotated[int | None, option("catp: optimiser steps of each policy; 800 by default.")] = None,
    seed: Seed = 0,
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Reproduce a paper's table with the simulated model and compare it with the published one.

    Example: `costgym reproduce deer --out deer`
    """
    from costgym.experiments.papers.page import write_page
    from costgym.experiments.papers.reproduce import find_paper
    from costgym.experiments.papers.reproduce import reproduce as compute
    from costgym.experiments.papers.tables import print_reproduction
    from costgym.experiments.play.execution.engine import default_jobs

    paper = find_paper(name)
    with Progress(f"reproducing {name}", quiet) as progress:
        tables = compute(name, seed, episodes, jobs or default_jobs(), data, out, progress.update, steps)
    save_json(json_file, tables)
    if prints(quiet, json_file):
        print_reproduction(paper, tables, console())
    if out is not None:
        count = ("" if episodes is None else f" --episodes {episodes}") + ("" if steps is None else f" --steps {steps}")
        page = write_page(paper, tables, out, f"costgym reproduce {name}{count} --seed {seed}")
        if prints(quiet, json_file):
            typer.echo(f"page: {page.resolve()}")
