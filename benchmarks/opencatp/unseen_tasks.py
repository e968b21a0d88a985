"""What planners lose on OpenCATP tasks that training did not see, against seen tasks; all on samples that it did not see.

    OMP_NUM_THREADS=1 python benchmarks/opencatp/unseen_tasks.py --json benchmarks/results/unseen_tasks.json

`share` is the mean Quality of Plan over that of `oracle-informed`, the best fixed plan per task and level on train samples.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.report import write_report
from costgym.agents.opencatp.base import Planner, Situation, actions_of
from costgym.agents.registry import make_planner
from costgym.envs.tpl import END, TplState, kind_of
from costgym.experiments.train.catp.measure import PlanOf, measure
from costgym.simulators.draws import stable_integer
from costgym.simulators.opencatp import OpenCATPTask, tasks
from costgym.simulators.opencatp.scoring.evaluation import Evaluator, shipped_outcomes
from costgym.simulators.plan import Plan

PLANNERS = ("oracle-informed", "zoo:catp", "greedy", "fixed-all")
SPLITS = {"train": "seen", "test": "unseen"}


def plans_of(planner: Planner, evaluator: Evaluator, seed: int = 0) -> PlanOf:
    """Convert a planner to a function that returns None for plans forbidden by the planning language's masks."""

    def plan_of(task: OpenCATPTask, sample: int, level: int) -> Plan | None:
        chance = stable_integer(seed, "measure", task.task_id, sample)
        plan = planner.propose(Situation(task, sample, level, evaluator, chance, complete=True)).plan
        if plan is None:
            return None
        state = TplState(kind_of(task))
        for choice in actions_of(plan, kind_of(task)):
            if not state.legal >> choice & 1:
                return None
            state.push(choice)
            if choice == END:
                return state.plan()
        return None

    return plan_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    evaluator = Evaluator(shipped_outcomes(None))
    rows = []
    for kind in ("sequential", "nonsequential"):
        for split, which in SPLITS.items():
            informed = 0.0
            for name in PLANNERS:
                measured = measure(plans_of(make_planner(name), evaluator), tasks(kind, split), "test", evaluator)
                informed = informed or measured.quality
                rows.append(
                    {"planner": name, "tasks": kind, "which": which, "plans": measured.plans, "quality": measured.quality}
                    | {"share": measured.quality / informed, "valid": measured.valid}
                )
    write_report({"command": "OMP_NUM_THREADS=1 python benchmarks/opencatp/unseen_tasks.py", "rows": rows}, args.json)


if __name__ == "__main__":
    main()
