"""Play the text agents of the default board on reading and on writing tasks, and compare the two rankings.

    python benchmarks/writes_ranking.py --episodes 200 --json benchmarks/results/writes_ranking.json

All agents think with the simulated language model, so the figures compare strategies and say nothing of a real one. Within a
world every agent plays the same tasks with the same luck. Intervals are percentiles of a bootstrap over tasks, in which all
agents of a world are resampled alike and the two worlds independently.
"""

import argparse
import itertools
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau, spearmanr

from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.suites import SUITES
from costgym.experiments.leaderboard import run
from costgym.simulators.ledger import Budget

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.report import write_report

WORLDS = {"reading": ("quick", "price=30"), "writing": ("writes", "price=40")}
RESAMPLES = 2000
Table = NDArray[np.float64]


def text_agents() -> list[str]:
    """The text agents of the default board, which names those of numbers after them."""
    return [*itertools.takewhile(lambda name: name != "random", SUITES["quick"].worlds[0].agents)]


def played(world: str, agents: Sequence[str], episodes: int, folder: Path, jobs: int) -> tuple[Table, Table, Table]:
    """Return for each episode whether it passes within budget, its price and the money lost: (n_agents, n_episodes) each."""
    suite, budget = WORLDS[world]
    limits = [Budget.one(budget)]
    config = make_run_config(suite=suite, agents=list(agents), budgets=limits, episodes=episodes, seeds=1)
    results = run(config, folder / world, jobs).results
    figures = np.zeros((3, len(agents), episodes))
    for result in results:
        passed = float(result.strict and result.within_budget)
        figures[:, agents.index(result.agent), result.episode] = passed, result.price, result.figures.get("money_lost", 0.0)
    return figures[0], figures[1], figures[2]


def interval(values: Table) -> tuple[float, float]:
    low, high = np.nanpercentile(values, (2.5, 97.5))
    return round(float(low), 4), round(float(high), 4)


def main() -> None:
    """Play both worlds and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    agents = text_agents()
    with tempfile.TemporaryDirectory() as folder:
        read, read_price, _ = played("reading", agents, args.episodes, Path(folder), args.jobs)
        wrote, wrote_price, lost = played("writing", agents, args.episodes, Path(folder), args.jobs)
    rng = np.random.default_rng(0)
    weights = [rng.multinomial(args.episodes, np.full(args.episodes, 1 / args.episodes), RESAMPLES) for _ in WORLDS]
    reading, writing = (weights[i] @ side.T / args.episodes for i, side in enumerate((read, wrote)))  # (resamples, n_agents)
    losing = weights[1] @ lost.T / args.episodes
    sides = {
        "reading": (read, reading), "writing": (wrote, writing), "money_lost": (lost, losing),
        "reading_price": (read_price, None), "writing_price": (wrote_price, None),
    }  # fmt: skip
    rows = []
    for i, agent in enumerate(agents):
        row: dict[str, Any] = {"agent": agent}
        for name, (values, resampled) in sides.items():
            row[name] = round(float(values[i].mean()), 4)
            if resampled is not None:
                row[f"{name}_ci95"] = interval(resampled[:, i])
        rows.append(row)
    correlations = {}
    for name, correlation in {"spearman": spearmanr, "kendall": kendalltau}.items():
        resampled = np.array([correlation(one, other)[0] for one, other in zip(reading, writing, strict=True)])
        value = float(correlation(read.mean(axis=1), wrote.mean(axis=1))[0])
        correlations[name] = {"value": round(value, 4), "ci95": interval(resampled)}
    reversed_pairs = []
    for i, j in itertools.permutations(range(len(agents)), 2):
        ahead, behind = interval(reading[:, i] - reading[:, j]), interval(writing[:, i] - writing[:, j])
        if ahead[0] > 0 > behind[1]:
            reversed_pairs.append({"pair": [agents[i], agents[j]], "reading_ci95": ahead, "writing_ci95": behind})
    pairs = len(agents) * (len(agents) - 1) // 2
    report = {
        "model": "simulated", "episodes": args.episodes, "worlds": WORLDS, "rows": rows, "rank_correlation": correlations,
        "pairs": pairs, "reversed_pairs": reversed_pairs,
    }  # fmt: skip
    write_report(report, args.json)


if __name__ == "__main__":
    main()
