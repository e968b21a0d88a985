"""Step the native vector environment beside Gymnasium's SyncVectorEnv over the scalar one, and compare every byte.

    python benchmarks/equality.py --steps 1000000 --json benchmarks/results/equality.json
    python benchmarks/equality.py --threads 2 --steps 1000000
    python benchmarks/equality.py --form concurrent --steps 1000000 --json benchmarks/results/equality_concurrent.json
    python benchmarks/equality.py --scenarios silent --steps 1000000 --json benchmarks/results/equality_silent.json
    python benchmarks/equality.py --env decision --steps 1000000 --json benchmarks/results/equality_decision.json

Steps are shared between scenarios, autoreset modes, enforcement modes and budgets. Compared after every step: observations,
rewards, ends, masks and all of `info` (costs, statuses, clocks, what is left of each budget), dtypes included. The first
difference ends the run with its place. `--part 1/6` runs a sixth of the cases, and adds
its counts to those of other parts in `--json`.
"""

from __future__ import annotations

import argparse
import itertools
import json
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
    "decision": [None, {}, {"price": 4.0, "seconds": 6.0, "tokens": 1200}, {"price": 0.7, "calls": 1}],
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
    parser.add_argument("--threads", type=int, default=1, help="of the native environment")
    parser.add_argument("--scenarios", help="names, with commas between them; by default all that are compared")
    parser.add_argument("--part", default="1/1", help="K/N: every N-th case, from the K-th on")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    part, parts = map(int, options.part.split("/"))
    scenarios = options.scenarios.split(",") if options.scenarios else SCENARIOS[options.env]
    cases = list(itertools.product(scenarios, AutoresetMode, ENFORCEMENTS, BUDGETS[options.env]))
    rounds = -(-options.steps // (len(cases) * options.envs))
    met: Counter[str] = Counter()
    begin = time.process_time()
    for number in range(part - 1, len(cases), parts):
        scenario, mode, enforcement, budget = cases[number]
        settings = {
            **VIEWS[options.env], **FORMS[options.form], "scenario": scenario, "enforcement": enforcement, "budget": budget,
            "threads": options.threads,
            "grading": ("strict", "judge")[number % 2], "cost": ("price", "seconds", "calls", "tokens")[number % 4],
        }  # fmt: skip
        met.update(run_views(options.envs, rounds, options.seed + number, mode, **settings))
        print(f"{number + 1}/{len(cases)} {scenario} {mode.value} {enforcement} {budget}: equal", flush=True)
    compared = len(range(part - 1, len(cases), parts))
    statuses = {Status(int(key)).label: count for key, count in sorted(met.items(), key=str) if key.isdigit()}
    report: dict[str, Any] = {
        "env": options.env,
        "form": options.form,
        "envs": options.envs,
        "threads": options.threads,
        "seed": options.seed,
        "differences": 0,
        "parts": {str(part): parts},
        "steps": rounds * options.envs * compared,
        "cases": compared,
        "ends": {key: met[key] for key in ("terminated", "truncated", "success")},
        "last_statuses": statuses,
        "cpu_seconds": round(time.process_time() - begin, 1),
    }
    if parts > 1 and options.json is not None and options.json.exists():
        report = added(json.loads(options.json.read_text()), report)
    write_report(report, options.json, ("numpy", "numba", "gymnasium"))


def added(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """The report of several parts of the same cases.

    Raises:
        SystemExit: the parts do not belong together, or one is there twice.
    """
    same = ("env", "form", "envs", "threads", "seed")
    if [before[key] for key in same] != [now[key] for key in same] or set(before["parts"]) & set(now["parts"]):
        raise SystemExit(f"expected other parts of the same comparison, found {before['parts']} and {now['parts']}")
    if set(before["parts"].values()) != set(now["parts"].values()):
        raise SystemExit(f"expected parts of one division, found {before['parts']} and {now['parts']}")
    counts = {key: round(before[key] + now[key], 1) for key in ("steps", "cases", "cpu_seconds")}
    sums = {key: dict(Counter(before[key]) + Counter(now[key])) for key in ("ends", "last_statuses")}
    return {**now, **counts, **sums, "parts": {**before["parts"], **now["parts"]}}


if __name__ == "__main__":
    main()
