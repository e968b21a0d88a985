"""`costgym retrieval`: the quality of tool retrieval from a world's catalogue."""

from __future__ import annotations

from typing import Annotated

from ...experiments.play.options import Data, ScenarioName, Split
from ...simulators.bounds import Count, option
from ...simulators.errors import UnknownName
from ..options import JsonFile
from ..output import print_table, save_json


def retrieval(
    scenario: ScenarioName = "marketplace",
    data: Data = None,
    retrievers: Annotated[tuple[str, ...], option("Among bm25, embedding, oracle.", "A,B,...")] = ("bm25",),
    depths: Annotated[tuple[int, ...], option("Numbers of tools found.", "K,K,...")] = (1, 3, 5, 10, 20),
    tasks: Annotated[Count | None, option("Number of tasks; by default the whole split.")] = None,
    split: Split = "test",
    level: Annotated[str | None, option("Instruction level of the query, such as category.")] = None,
    json_file: JsonFile = None,
) -> None:
    """Search a world's catalogue for each task's query: recall, nDCG, and tasks with a tool for every need.

    The file of --json also has their 95 % intervals.

    Example: `costgym retrieval --retrievers bm25,embedding --tasks 100`
    """
    from ...experiments.fit.retrieval import METRICS, retrieval_quality
    from ...simulators.retrieval import RETRIEVERS
    from ...simulators.scenario import load_scenario
    from ...simulators.tasks import LEVELS

    for name in retrievers:
        if name not in RETRIEVERS:
            raise UnknownName("retriever", name, RETRIEVERS)
    if level is not None and level not in LEVELS:
        raise UnknownName("instruction level", level, LEVELS)
    world = load_scenario(scenario or "marketplace", data)
    rows = retrieval_quality(world, list(retrievers), list(depths), tasks, split, level)
    cells = [(row["retriever"], str(row["k"]), *(f"{row[metric]:.3f}" for metric in METRICS)) for row in rows]
    print_table(("retriever", "k", "recall", "nDCG", "complete"), cells, ("retriever",))
    save_json(json_file, rows)
