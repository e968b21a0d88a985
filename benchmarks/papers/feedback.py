"""ToolPlanner's Table 5 on small models: trained with both kinds of feedback, without each of them, and without both.

    python benchmarks/papers/feedback.py --out runs/feedback --episodes 20 --json benchmarks/results/feedback.json

The four share one first stage, which is the row without both, and one set of solution trees; so does a fifth, which has both
kinds but no pairs that teach it to give up a branch without facts. They are played under the published protocol, beside plain
tree search with the same limits. Runs and episodes are kept: a call that was stopped goes on.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.report import write_report
from costgym.experiments.papers.paper import Job
from costgym.experiments.papers.playing import enlarged
from costgym.experiments.papers.toolplanner import PROTOCOLS, follow_all, instruction_rows
from costgym.experiments.train.toolplanner.train import STAGE_ONE, train_toolplanner
from costgym.simulators.scenario import load_scenario

LENGTHS = {"tasks": 1500, "steps": 600, "rank_tasks": 200, "rank_steps": 60}
LEFT_OUT: dict[str, dict[str, Any]] = {"without-completion": {"completion": False}, "without-following": {"following": False}}
BASE, BOTH, NEITHER, NO_DEAD_ENDS = "dfsdt", "both-feedbacks", "without-both", "without-dead-ends"
FIGURES = {"match_rate": "Match", "meaningful_rate": "Pass", "win_rate": "Win"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/feedback"))
    parser.add_argument("--episodes", type=int, default=20, help="tasks at each of the five instruction levels")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    report = args.json and args.json.absolute()
    args.out.mkdir(parents=True, exist_ok=True)
    os.chdir(args.out)  # an agent's name holds its run, and names files
    train_toolplanner(BOTH, seed=args.seed, **LENGTHS)
    for name, change in LEFT_OUT.items():
        train_toolplanner(name, seed=args.seed, sft=Path(BOTH) / STAGE_ONE, **LENGTHS, **change)
    with patch("costgym.experiments.train.toolplanner.data._dead_ends", return_value=[]):
        train_toolplanner(NO_DEAD_ENDS, seed=args.seed, sft=Path(BOTH) / STAGE_ONE, **LENGTHS)
    if not Path(NEITHER).exists():
        Path(NEITHER).symlink_to(Path(BOTH) / STAGE_ONE)
    agents = [BASE, *(f"toolplanner:{name}" for name in (BOTH, *LEFT_OUT, NO_DEAD_ENDS, NEITHER))]
    published = PROTOCOLS[0]
    world = published.scenario(enlarged(load_scenario("marketplace"), 4 * args.episodes))
    played = follow_all(agents, world, published, Job(args.seed, args.episodes, args.jobs, Path("played")))
    rows = [
        {"agent": row["agent"], "level": row["level"], "episodes": row["episodes"]}
        | {
            title: [round(100 * value, 1) for value in (row[key], *row["ci95"][key])]
            for key, title in FIGURES.items()
            if key in row
        }
        for row in instruction_rows(played, args.seed)
    ]
    write_report({"command": "python benchmarks/papers/feedback.py", **LENGTHS, "rows": rows}, report)


if __name__ == "__main__":
    main()
