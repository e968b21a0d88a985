"""Step the native OpenCATP batches beside Gymnasium's SyncVectorEnv over the single environments, and compare every byte.

    python benchmarks/opencatp/equality.py --steps 1000000 --json benchmarks/results/equality_opencatp.json
    python benchmarks/opencatp/equality.py --env calls --steps 1000000 --json benchmarks/results/equality_opencatp_calls.json

So many steps are shared between kinds of tasks, autoreset modes, budgets (plans) or machines (calls); what limits do, splits,
rewards, size levels, profiles and costs go round. Compared after every step: observations, rewards, ends, masks and all of
`info` (costs, clocks, scores, what is left of each budget), dtypes included. Then a tenth as many random plans are scored in
batch and one by one. The first difference ends the run with its place.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from costgym.envs.tpl import KINDS, TplState, decode
from costgym.simulators.opencatp.batch.scorer import PlanScorer
from costgym.simulators.opencatp.profile import Profile, ToolCost
from costgym.simulators.opencatp.scoring.evaluation import Evaluator
from costgym.simulators.opencatp.tasks import all_tasks
from costgym.simulators.opencatp.tools import TOOLS

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.report import write_report
from costgym.experiments.selftest.opencatp import VIEWS, run_opencatp

IDS = dict(zip(("plans", "calls"), VIEWS, strict=True))
KINDS_OF_TASKS = ("sequential", "nonsequential", "all")
BUDGETS: tuple[dict[str, float] | None, ...] = (None, {"price": 0.4, "tokens": 25}, {"seconds": 4.0, "calls": 4})
MACHINES: tuple[dict[str, Any], ...] = (
    {},
    {"slots": 2, "cold_starts": True},
    {"gpu_capacity_mb": 2300.7, "budget": {"seconds": 30.0}},
    {"slots": 3, "gpu_capacity_mb": 2000.3, "cold_starts": True, "budget": {"price": 0.5, "calls": 6}},
    {"slots": 2, "budget": {"price": 0.12, "seconds": 2.0}},
)
ENFORCEMENTS = (None, "refuse", "terminate", "record")


def round_profile() -> Profile:
    """Round times, so that tools often end together, and memory in fractions of a MB."""
    luck = random.Random(0)
    tools = {}
    for tool in TOOLS:
        times = tuple(luck.choice((250.0, 500.0, 1000.0)) * (1 + level) for level in range(4))
        tools[tool] = ToolCost(times, 100.0, round(luck.uniform(100, 1500), 1), cold_start_s=luck.choice((0.0, 0.25, 0.7)))
    return Profile("round", tools)


def play(env_id: str, steps: int, envs: int, seed: int) -> dict[str, Any]:
    """All cases of one environment."""
    variants: tuple[Any, ...] = BUDGETS if env_id == "costgym/OpenCATP-v0" else MACHINES
    cases = list(itertools.product(KINDS_OF_TASKS, AutoresetMode, variants, ("v100", round_profile())))
    rounds = -(-steps // (len(cases) * envs))
    met: Counter[str] = Counter()
    begin = time.process_time()
    for number, (tasks, mode, variant, profile) in enumerate(cases):
        settings: dict[str, Any] = {
            "tasks": tasks, "profile": profile, "split": ("train", "test")[number // 2 % 2],
            "cost": ("price", "seconds", "tokens", "calls")[number % 4], "level": (None, None, 3)[number % 3],
            "alpha": (0.5, 0.3)[number // 3 % 2],
        }  # fmt: skip
        if env_id == "costgym/OpenCATP-v0":
            reward, length = ("incremental", "cumulative")[number // 2 % 2], (41, 41, 18)[number // 4 % 3]
            settings |= {"budget": variant, "reward": reward, "max_tokens": length}
        else:
            steps_limit, enforcement = (64, 4)[number % 7 == 0], ENFORCEMENTS[number // 2 % 4]
            concurrent = number // 3 % 2 == 1
            settings |= {"max_steps": steps_limit, "concurrent": concurrent, "enforcement": enforcement, **variant}
        met += run_opencatp(env_id, envs, rounds, seed + number, mode, **settings)
        named = variant or "no limits"
        name = profile if isinstance(profile, str) else profile.name
        print(f"{env_id} {number + 1}/{len(cases)} {tasks} {mode.value} {named} {name}: equal", flush=True)
    return {
        "env": env_id,
        "steps": rounds * envs * len(cases),
        "cases": len(cases),
        "differences": 0,
        "ends": dict(sorted(met.items())),
        "cpu_seconds": round(time.process_time() - begin, 1),
    }


def score(count: int, seed: int) -> dict[str, Any]:
    """Random plans of every kind, in batch and one by one."""
    luck = random.Random(seed)
    written, tasks, samples = [], [], []
    while len(written) < count:
        state = TplState(luck.choice(KINDS), luck.choice((20, 41, 60)))
        while not state.done:
            state.push(luck.choice(state.actions()))
        written.append(state.tokens)
        tasks.append(luck.choice(all_tasks()))
        samples.append(luck.randrange(100))
    evaluator = Evaluator()
    scorer = PlanScorer(evaluator)
    found = np.stack(scorer.score(written, tasks, samples)[:4], axis=1)
    for number, (tokens, task, sample) in enumerate(zip(written, tasks, samples, strict=True)):
        expected = tuple(evaluator.evaluate(decode(tokens), task, sample))
        assert tuple(found[number].tolist()) == expected, (tokens, task, sample, found[number], expected)
    return {"plans": count, "different_plans": len({tuple(tokens) for tokens in written}), "differences": 0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", choices=("plans", "calls"), default="plans")
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--envs", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    report = {
        "envs": options.envs,
        "seed": options.seed,
        **play(IDS[options.env], options.steps, options.envs, options.seed),
        **({"scored": score(options.steps // 10, options.seed)} if options.env == "plans" else {}),
    }
    write_report(report, options.json, ("numpy", "numba", "gymnasium"))


if __name__ == "__main__":
    main()
