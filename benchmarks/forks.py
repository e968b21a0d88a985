"""Fork environments in the middle of episodes, time each fork, and compare how it and the original go on.

    python benchmarks/forks.py --forks 10000 --json benchmarks/results/forks.json

The forks are shared between all environments, in the cases of `tests/helpers/forks.py`. Each is taken after 0 to 4 random
steps. Then fork and original take the same random actions past the end of their episodes; observations, rewards, ends and all
of `info` are compared. The first difference ends the run with its place.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import costgym

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.report import write_report
from tests.helpers.forks import CASES, choose, go_on


def play(env_id: str, settings: dict[str, Any], forks: int, steps: int) -> dict[str, Any]:
    """Forks of one environment, each beside its original."""
    env = costgym.make(env_id, disable_env_checker=True, **settings)
    generator, taken_us, compared = np.random.default_rng(0), [], 0
    for seed in range(forks):
        _, info = env.reset(seed=seed)
        for _ in range(seed % 5):
            *_, terminated, truncated, info = env.step(choose(env, info, generator.random()))
            if terminated or truncated:
                _, info = env.reset()
        begin = time.perf_counter_ns()
        twin: Any = env.unwrapped.fork()  # type: ignore[attr-defined]
        taken_us.append((time.perf_counter_ns() - begin) / 1000)
        original, copied = go_on(env.unwrapped, info, seed, steps), go_on(twin, info, seed, steps)
        if original != copied:
            at = next(number for number, pair in enumerate(zip(original, copied, strict=True)) if pair[0] != pair[1])
            raise SystemExit(f"{env_id} {settings}, fork {seed}: differs at event {at} after the fork")
        compared += len(original)
    ordered = sorted(taken_us)
    return {
        "env": env_id,
        "settings": settings,
        "forks": forks,
        "compared": compared,
        "differences": 0,
        "median_us": round(statistics.median(ordered)),
        "p95_us": round(ordered[int(0.95 * len(ordered))]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--forks", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=8, help="that fork and original are compared over")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found = [play(env_id, settings, -(-given.forks // len(CASES)), given.steps) for env_id, settings in CASES]
    write_report({"forks": sum(each["forks"] for each in found), "cases": found}, given.json, ("numpy", "gymnasium"))


if __name__ == "__main__":
    main()
