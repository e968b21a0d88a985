"""`costgym retrieval`: how well tools are found in a world's catalogue."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ..options import Data, JsonFile, ScenarioName, Split
from ..output import console, names_in


def retrieval(
    scenario: ScenarioName = None,
    data: Data = None,
    retrievers: Annotated[str, typer.Option("--retrievers", metavar="LIST", help="Among bm25, embedding, oracle.")] = "bm25",
    depths: Annotated[
        str, typer.Option("--depths", metavar="LIST", help="Numbers of tools that are looked at.")
    ] = "1,3,5,10,20",
    tasks: Annotated[int | None, typer.Option("--tasks", min=1, help="Number of tasks; by default the whole split.")] = None,
    split: Split = "test",
    level: Annotated[str | None, typer.Option("--level", help="Instruction level of the query, such as category.")] = None,
    json_file: JsonFile = None,
) -> None:
    """Search a world's catalogue for each task's query: recall, nDCG, and tasks with a tool for every need.

    The file of --json has their 95 % intervals too.

    Example: `costgym retrieval --retrievers bm25,embedding --tasks 100`
    """
    from rich.table import Table

    from ...experiments.fit.retrieval import METRICS, retrieval_quality
    from ...experiments.play.files import write_atomically
    from ...simulators.errors import ConfigError, UnknownName
    from ...simulators.retrieval import RETRIEVERS
    from ...simulators.scenario import load_scenario
    from ...simulators.tasks import LEVELS

    names = names_in(retrievers) or []
    for name in names:
        if name not in RETRIEVERS:
            raise UnknownName("retriever", name, RETRIEVERS)
    if level is not None and level not in LEVELS:
        raise UnknownName("instruction level", level, LEVELS)
    try:
        wanted = [int(depth) for depth in names_in(depths) or []]
    except ValueError:
        raise ConfigError("--depths", f"expected whole numbers such as 1,5,10, got {depths!r}") from None
    rows = retrieval_quality(load_scenario(scenario or "marketplace", data), names, wanted, tasks, split, level)
    table = Table(box=None, pad_edge=False)
    for heading in ("retriever", "k", "recall", "nDCG", "complete"):
        table.add_column(heading, justify="left" if heading == "retriever" else "right")
    for row in rows:
        table.add_row(row["retriever"], str(row["k"]), *(f"{row[metric]:.3f}" for metric in METRICS))
    console().print(table)
    if json_file is not None:
        write_atomically(json_file, json.dumps(rows, indent=1) + "\n")
