"""Measure retrievers: how many of the tools that a task needs they find, and how far up.

python benchmarks/retrieval.py --retrievers bm25,embedding,oracle
python benchmarks/retrieval.py --scenario toolbench --data DIR --tasks 100 --json retrieval.json
"""

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from costgym.experiments.play.statistics import intervals
from costgym.simulators.errors import ConfigError
from costgym.simulators.retrieval import Retrieval, Retriever
from costgym.simulators.scenario import Scenario, load_scenario
from costgym.simulators.tasks import Task

Row = dict[str, Any]
DEPTHS = (1, 3, 5, 10, 20)
METRICS = ("recall", "ndcg", "complete")
RESAMPLES = 1000


def retrieval_quality(
    scenario: Scenario,
    retrievers: Sequence[str] = ("bm25",),
    depths: Sequence[int] = DEPTHS,
    tasks: int | None = None,
    split: str = "test",
    level: str | None = None,
) -> list[Row]:
    """Search the whole catalogue for each task's query, and compare what comes first with the tools that serve the task.

    Args:
        scenario: The world; how its tools on offer are chosen does not matter.
        retrievers: Names of `RETRIEVERS`.
        depths: Numbers of tools k, each a row.
        tasks: Number of tasks; None for the whole split.
        split: Split of the tasks.
        level: Instruction level of the query; None for the task's own.

    Returns:
        Rows with `retriever`, `k`, `tasks` and, averaged over tasks with 95 % intervals in `ci95`: `recall`, the share of the
        needs with a serving tool among the first k; `complete`, the share of the tasks without a need left out; `ndcg`, the
        normalised discounted cumulative gain of serving tools.

    Raises:
        ConfigError: A depth is not positive.
    """
    if not depths or min(depths) < 1:
        raise ConfigError("depths", f"expected numbers of tools of at least 1, got {tuple(depths)}")
    world = scenario.build()
    chosen = [world.tasks[number] for number in list(world.tasks.numbers(split))[:tasks]]
    rows: list[Row] = []
    for name in retrievers:
        retriever = Retriever(Retrieval.model_validate({"retriever": name, "k": max(depths)}), world.catalog)
        scores: dict[int, list[tuple[float, float, float]]] = {depth: [] for depth in depths}
        for task in chosen:
            query = task.instructions.get(level or "", task.query)
            names = [world.catalog[number].name for number in retriever.rank(query, task)[: max(depths)]]
            for depth in depths:
                scores[depth].append(score(names[:depth], task))
        for depth in depths:
            values = np.array(scores[depth]).reshape(-1, len(METRICS))
            low, high = intervals(values, np.ones_like(values), range(len(values)), 0, RESAMPLES)
            figures = dict(zip(METRICS, values.mean(axis=0).tolist(), strict=True))
            ends = {metric: [float(low[i]), float(high[i])] for i, metric in enumerate(METRICS)}
            rows.append({"retriever": name, "k": depth, "tasks": len(chosen), **figures, "ci95": ends})
    return rows


def score(names: Sequence[str], task: Task) -> tuple[float, float, float]:
    """Return the recall, nDCG and completeness of the tools found for a task, best first.

    A tool is relevant if it serves a need. The ideal order has all relevant tools first.
    """
    serving = {name for need in task.needs for name in need.tools}
    met = [any(name in need.tools for name in names) for need in task.needs]
    gain = sum(1.0 / math.log2(index + 2) for index, name in enumerate(names) if name in serving)
    ideal = sum(1.0 / math.log2(index + 2) for index in range(min(len(names), len(serving))))
    return sum(met) / len(met) if met else 0.0, gain / ideal if ideal else 0.0, float(all(met))


def main() -> None:
    parser = argparse.ArgumentParser(description="Search a world's catalogue for each task's query.")
    parser.add_argument("--scenario", default="marketplace")
    parser.add_argument("--data", type=Path, help="folder with the scenario's data")
    parser.add_argument("--retrievers", default="bm25", help="among bm25, embedding, oracle")
    parser.add_argument("--tasks", type=int, help="number of tasks; by default the whole split")
    parser.add_argument("--split", default="test")
    parser.add_argument("--level", help="instruction level of the query, such as category")
    parser.add_argument("--json", type=Path, help="file for the figures and their intervals")
    args = parser.parse_args()
    world = load_scenario(args.scenario, args.data)
    rows = retrieval_quality(world, args.retrievers.split(","), tasks=args.tasks, split=args.split, level=args.level)
    for row in rows:
        print(f"{row['retriever']:10} k = {row['k']:<3}", "  ".join(f"{name} {row[name]:.3f}" for name in METRICS))
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
