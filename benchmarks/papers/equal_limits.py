"""ToolPlanner beside DFSDT on the default leaderboard's tasks: with limits of its own for each, and with the same for both.

    python benchmarks/papers/equal_limits.py --out runs/limits --json benchmarks/results/equal_limits.json

The default leaderboard lets DFSDT make 12 steps and 200 replies, as ToolBench does; ToolPlanner has 4 rounds and 30 replies.
`toolplanner` and `toolplanner-answers` are the simulated model, untrained; `zoo:toolplanner` was trained in both stages.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.run_log import read_episodes
from costgym.experiments.leaderboard import run as run_leaderboard
from costgym.experiments.papers.toolplanner import PROTOCOLS
from costgym.experiments.play.metrics import paired_difference
from costgym.simulators.scenario import load_scenario, parse_scenario

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.report import write_report

BASE, TRAINED = "dfsdt", "zoo:toolplanner"
PLANNERS = ("toolplanner", "toolplanner-answers", TRAINED)
LIMITS: dict[str, Any] = {"their own": {}, "the same": PROTOCOLS[0].search}
METRICS = ("pass_rate", "average_cost")
SEEDS = 4
"""Episodes of a task, which the bootstrap draws together."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/limits"))
    parser.add_argument("--failures", default="", help="how tools fail, by the name of a preset, such as reliable")
    parser.add_argument("--world", type=int, help="version of the world; by default the leaderboard's")
    parser.add_argument("--planners", default=",".join(PLANNERS), help="which planners to play, with commas between")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    scenario, planners = "marketplace", args.planners.split(",")
    if args.failures:
        scenario = parse_scenario({**load_scenario(scenario).model_dump(mode="json"), "failures": args.failures})
    rows, played = [], []
    for limits, search in LIMITS.items():
        board = args.out / limits.replace(" ", "-")
        agents = [BASE] if search else [BASE, *planners]
        config = make_run_config(
            "quick", agents=agents, budgets="price=15,30,60", search=search, scenario=scenario, world=args.world
        )
        document = run_leaderboard(config, board, args.jobs).document
        # the planners' limits are the same in both
        played = [*(one for one in played if one.agent != BASE), *read_episodes(board)]
        for row in document["rows"]:
            figures = {"limits": limits, "agent": row["agent"], "budget": row["budget"]["price"], "episodes": row["episodes"]}
            figures |= {metric: row[metric] for metric in METRICS}
            figures["ci95"] = {metric: row["ci95"][metric] for metric in METRICS}
            rows.append(figures)
        for budget in sorted({one.budget["price"] for one in played}):
            same = [one for one in played if one.budget["price"] == budget]
            base = [one for one in same if one.agent == BASE]
            for agent in planners:
                results = [one for one in same if one.agent == agent]
                less = paired_difference(results, base, "pass_rate", seeds=SEEDS)
                points = [round(100 * value, 1) for value in (less.difference, *less.ci95)]
                rows.append({"limits": limits, "agent": f"{agent} less {BASE}", "budget": budget, "pass_rate, points": points})
    write_report(
        {"command": "python benchmarks/papers/equal_limits.py", "failures": args.failures or "marketplace", "rows": rows},
        args.json,
    )


if __name__ == "__main__":
    main()
