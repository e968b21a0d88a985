"""`costgym reproduce`: reproduces a paper's table."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from costgym.cli.options import JsonFile, Quiet
from costgym.cli.output import Progress, console, print_table, prints, save_json
from costgym.experiments.papers.paper import Paper, Tables
from costgym.experiments.play.options import Data, Seed
from costgym.simulators.bounds import argument, option


def reproduce(
    name: Annotated[str, argument("btp, ecoact, deer, toolplanner or catp.")],
    episodes: Annotated[int | None, option("Episodes per agent; by default the paper's.")] = None,
    data: Data = None,
    out: Annotated[Path | None, option("Folder of the runs and a report page; the same folder continues them.", "DIR")] = None,
    jobs: Annotated[int | None, option("Processes; all processors by default.")] = None,
    steps: Annotated[int | None, option("catp, deer with --data: optimiser steps of each policy.")] = None,
    model: Annotated[
        tuple[str, ...] | None,
        option(
            "deer with --data: what to train on it, or deer:RUN; by default small, minilm. toolplanner: toolplanner:RUN.",
            "MODEL[,MODEL ...]",
        ),
    ] = None,
    world: Annotated[int, option("Version of the world, where there are several.", "0|1", ge=0, le=1)] = 0,
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
    from costgym.experiments.play.execution.engine import default_jobs

    paper = find_paper(name)
    with Progress(f"reproducing {name}", quiet) as progress:
        tables = compute(name, seed, episodes, jobs or default_jobs(), data, out, progress.update, steps, world, model)
    save_json(json_file, tables)
    if prints(quiet, json_file):
        print_reproduction(paper, tables)
    if out is not None:
        count = ("" if episodes is None else f" --episodes {episodes}") + ("" if steps is None else f" --steps {steps}")
        count += ("" if data is None else " --data DIR") + ("" if model is None else f" --model {','.join(model)}")
        count += f" --world {world}" if world else ""
        page = write_page(paper, tables, out, f"costgym reproduce {name}{count} --seed {seed}")
        if prints(quiet, json_file):
            typer.echo(f"page: {page.resolve()}")


def print_reproduction(paper: Paper, rows_by_table: Tables) -> None:
    """Print the paper's table, our table with 95 % intervals, and whether each effect follows. A table has one protocol and one
    kind of tasks."""
    from costgym.experiments.board.rows import is_simulated
    from costgym.experiments.papers.tables import EFFECT_HEADINGS, GROUPS, effect_lines, notes, split, tables, verdict

    def say(text: str) -> None:
        screen.print(text, style="dim", highlight=False)

    screen = console()
    for title, headings, lines in tables(paper, rows_by_table):
        for part in split(title, headings, lines):
            _print_part(*part, left=(*GROUPS, "agent"))
        rows = rows_by_table[title.rpartition(" ")[2]]
        for source in dict.fromkeys(row["source"] for row in rows if "source" in row):
            say(f"source: {source}")
        if any(is_simulated(row) for row in rows):
            say("ours: simulated model; compare effects, not absolute values")
    effects = rows_by_table["effects"]
    for part in split(f"{paper.name}: effects", EFFECT_HEADINGS, effect_lines(effects)):
        _print_part(*part, left=EFFECT_HEADINGS)
    if effects:
        screen.print(verdict(effects), highlight=False)
    say(notes(paper, rows_by_table))


def _print_part(title: str, headings: Sequence[str], lines: Sequence[Sequence[str]], left: Sequence[str]) -> None:
    console().print(f"\n{title}", style="bold", highlight=False)
    print_table(headings, lines, left)
