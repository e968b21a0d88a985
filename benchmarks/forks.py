"""Fork environments in the middle of episodes, time each fork, and compare how it and the original go on.

    python benchmarks/forks.py --forks 10000 --json benchmarks/results/forks.json
    python benchmarks/forks.py --scenario marketplace-writes --before 12 --json benchmarks/results/forks_writes.json

The forks are shared between all environments, in the cases of `tests/helpers/forks.py`. Each is taken after 0 to 4 random
steps. First another fork takes other actions, which must change nothing. Then fork and original take the same random actions
past the end of their episodes; observations, rewards, ends and all of `info` are compared. The first difference ends the run
with its place.
"""

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


def play(env_id: str, settings: dict[str, Any], forks: int, steps: int, before: int) -> dict[str, Any]:
    """Forks of one environment, each beside its original."""
    env = costgym.make(env_id, disable_env_checker=True, **settings)
    generator, taken_us, compared, with_effects = np.random.default_rng(0), [], 0, 0
    for seed in range(forks):
        _, info = env.reset(seed=seed)
        for _ in range(seed % before):
            *_, terminated, truncated, info = env.step(choose(env, info, generator.random()))
            if terminated or truncated:
                _, info = env.reset()
        begin = time.process_time_ns()
        twin: Any = env.unwrapped.fork()  # type: ignore[attr-defined]
        taken_us.append((time.process_time_ns() - begin) / 1000)
        store = getattr(env.unwrapped.account(), "store", None)  # type: ignore[attr-defined]
        with_effects += store is not None and any(record.count for record in store.records.values())
        go_on(env.unwrapped.fork(), info, seed + forks, steps)  # type: ignore[attr-defined]
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
        **({"with_effects": with_effects} if with_effects else {}),
        "median_us": round(statistics.median(ordered)),
        "p95_us": round(ordered[int(0.95 * len(ordered))]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--forks", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=5, help="that fork and original are compared over")
    parser.add_argument("--before", type=int, default=5, help="each fork is taken after fewer steps than this")
    parser.add_argument("--scenario", help="only the cases of this one")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    cases = [case for case in CASES if args.scenario in (None, case[1].get("scenario"))]
    found = [play(*case, -(-args.forks // len(cases)), args.steps, args.before) for case in cases]
    write_report({"forks": sum(each["forks"] for each in found), "cases": found}, args.json, ("numpy", "gymnasium"))


if __name__ == "__main__":
    main()
