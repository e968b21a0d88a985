"""Print what published systems add to their plain forms on a board: the figures of `docs/results/board.md` and the README.

costgym leaderboard --suite quick --seed 0 --out runs/board
python benchmarks/board_gains.py runs/board
"""

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from costgym.experiments.play.metrics import RESAMPLES, swap_test

STRATEGIES = ("react", "cot@5", "dfsdt", "tot-dfs", "plan-act")
STRICT, JUDGED, PLANS = "pass_rate_under_budget", "judged_pass_rate_under_budget", "quality_of_plan"
COSTS = {STRICT: "cost_per_success", JUDGED: "judged_cost_per_success", PLANS: "cost_per_success"}
PAIRS = (
    ("toolplanner", "dfsdt", (STRICT, JUDGED), 4),
    ("deer", "deer-rule", (STRICT,), 1),
    ("zoo:deer", "deer-rule", (STRICT,), 1),
    ("zoo:catp", "few-shot", (PLANS,), 1),
)
"""Agent, the agent that it is compared with, figures, and episodes of a task in a row, which the test swaps together."""

Row = dict[str, Any]


def mean(values: Iterable[float]) -> float:
    return float(np.mean([*values]))


def suffixes(rows: list[Row]) -> None:
    """Print means over five strategies with a suffix and without, and which strategies lose strict passes by it."""
    named = {(row["agent"], row["budget"]["price"]): row for row in rows if row["track"] == "text"}
    for suffix in ("+btp", "+ecoact"):
        for budget in sorted({budget for _, budget in named}):
            cells, losses = [], []
            for passes in (STRICT, JUDGED):
                plain, more = ([named[name + end, budget] for name in STRATEGIES] for end in ("", suffix))
                gains = [100 * (after[passes] - before[passes]) for before, after in zip(plain, more, strict=True)]
                before, after = (mean(row[COSTS[passes]] for row in half) for half in (plain, more))
                cells += [f"{mean(gains):+.1f}, {sum(gain > 0 for gain in gains)} of 5 gain", f"{before:.1f} → {after:.1f}"]
                losses.append(", ".join(f"{name} {gain:.1f}" for name, gain in zip(STRATEGIES, gains, strict=True) if gain < 0))
            print(f"| `{suffix}` | {budget:g} | {' | '.join(cells)} |  strict losses: {losses[0] or 'none'}")


def pairs(rows: list[Row]) -> None:
    """Print agents beside their rivals in the same episodes, with the 95 % interval of the paired test by task."""
    named = {(row["agent"].partition(" (")[0], _condition(row)): row for row in rows}
    for agent, rival, figures, seeds in PAIRS:
        for condition in [where for name, where in named if name == agent and (rival, where) in named]:
            row, other = named[agent, condition], named[rival, condition]
            for figure in figures:
                gains, base = (np.array([*one["by_episode"][figure]], float) for one in (row, other))
                ones, indices = np.ones(len(gains)), range(len(gains))
                _, (low, high) = swap_test((gains, ones), (base, ones), indices, 0, RESAMPLES, seeds)
                gain = f"{row[figure] - other[figure]:+.3f} ({low:.3f} to {high:.3f})"
                costs = f"{other[COSTS[figure]]:.3f} → {row[COSTS[figure]]:.3f} a success"
                print(f"{agent} less {rival}, {condition}: {figure} {other[figure]:.3f} → {row[figure]:.3f}, {gain}; {costs}")


def _condition(row: Row) -> str:
    return f"{row['track']} {row['env']} {row['budget'].get('price', '')} {row.get('tasks', '')}".strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("board", type=Path, help="folder of a leaderboard that has ended")
    rows = json.loads((parser.parse_args().board / "leaderboard.json").read_text(encoding="utf-8"))["rows"]
    suffixes(rows)
    pairs(rows)


if __name__ == "__main__":
    main()
