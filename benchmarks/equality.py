"""Step the native vector environment beside Gymnasium's SyncVectorEnv over the scalar one, and compare every byte.

    python benchmarks/equality.py --steps 1000000 --json benchmarks/results/equality.json
    python benchmarks/equality.py --form concurrent --steps 1000000 --json benchmarks/results/equality_concurrent.json
    python benchmarks/equality.py --scenarios silent --steps 1000000 --json benchmarks/results/equality_silent.json
    python benchmarks/equality.py --env decision --steps 1000000 --json benchmarks/results/equality_decision.json

Steps are shared between scenarios, autoreset modes, enforcement modes and budgets. Compared after every step: observations,
rewards, ends, masks and all of `info` (costs, statuses, clocks, what is left of each budget), dtypes included. The first
difference ends the run with its place.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from gymnasium.vector import AutoresetMode

from costgym.envs.decision import DecisionAwareEnv
from costgym.envs.vector.decision import DecisionVectorEnv
from costgym.simulators.status import Status

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.report import write_report
from costgym.experiments.selftest.lockstep import run_views, some_decisions

FORMS: dict[str, dict[str, Any]] = {
    "default": {"max_steps": 10},
    "legal": {"mask": "legal", "max_steps": 10},
    "concurrent": {"concurrent": True},
}
EVENTS = [
    {"at_s": 0.3, "kind": "price_change", "share": 0.6, "factor": 1.7},
    {"at_s": 1.2, "kind": "ban", "share": 0.7},
    {"at_s": 2.5, "kind": "unban"},
]
SCENARIOS: dict[str, list[Any]] = {
    "marketplace": [
        "marketplace",
        "marketplace-2024",
        "marketplace-reliable",
        "storm",
        "faas",
        {"events": [{"at_s": 0.0, "kind": "ban", "share": 0.2}, *EVENTS]},
    ],
    "decision": [
        "decision",
        "marketplace-2024",
        "storm",
        "faas",
        {"failures": "storm", "tokens": {"input": 500, "output": 1500}, "events": EVENTS},
    ],
}
ENFORCEMENTS = ("refuse", "terminate", "record")
BUDGETS: dict[str, list[dict[str, float] | None]] = {
    "marketplace": [None, {}, {"seconds": 15.0, "calls": 10}],
    "decision": [None, {}, {"price": 4.0, "seconds": 6.0, "tokens": 1200}],
}
VIEWS: dict[str, dict[str, Any]] = {
    "marketplace": {"max_steps": 48},
    "decision": {
        "scalar_env": DecisionAwareEnv, "native_env": DecisionVectorEnv, "choose": some_decisions, "max_steps": 4,
        "samples": {"counts": {"train": [100, 200, 300]}},
    },
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", choices=list(VIEWS), default="marketplace")
    parser.add_argument("--form", choices=list(FORMS), default="default", help="of the marketplace")
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--envs", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scenarios", help="names, with commas between them; by default all that are compared")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    scenarios = options.scenarios.split(",") if options.scenarios else SCENARIOS[options.env]
    cases = list(itertools.product(scenarios, AutoresetMode, ENFORCEMENTS, BUDGETS[options.env]))
    rounds = -(-options.steps // (len(cases) * options.envs))
    met: Counter[str] = Counter()
    begin = time.perf_counter()
    for number, (scenario, mode, enforcement, budget) in enumerate(cases):
        settings = {
            **VIEWS[options.env], **FORMS[options.form], "scenario": scenario, "enforcement": enforcement, "budget": budget,
            "grading": ("strict", "judge")[number % 2], "cost": ("price", "seconds", "calls", "tokens")[number % 4],
        }  # fmt: skip
        met.update(run_views(options.envs, rounds, options.seed + number, mode, **settings))
        print(f"{number + 1}/{len(cases)} {scenario} {mode.value} {enforcement} {budget}: equal", flush=True)
    statuses = {Status(int(key)).label: count for key, count in sorted(met.items(), key=str) if key.isdigit()}
    report = {
        "env": options.env,
        "form": options.form,
        "steps": rounds * options.envs * len(cases),
        "cases": len(cases),
        "envs": options.envs,
        "seed": options.seed,
        "differences": 0,
        "ends": {key: met[key] for key in ("terminated", "truncated", "success")},
        "last_statuses": statuses,
        "seconds": round(time.perf_counter() - begin, 1),
    }
    write_report(report, options.json, ("numpy", "numba", "gymnasium"))


if __name__ == "__main__":
    main()
