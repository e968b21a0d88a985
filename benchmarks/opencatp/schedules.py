"""Random schedules of vision tools on this version and on another one: every time, price and outcome, compared bit for bit.

    python benchmarks/opencatp/schedules.py [COUNT] --base OTHER/bin/python

Each schedule is an episode of `OpenCATPCalls-v0` in which allowed actions are drawn at random: calls that run side by side, and
waits.
"""

import argparse
import json
import subprocess
import sys

import numpy as np

import costgym
from costgym.envs.opencatp.calls import OpenCATPCallsEnv

FIGURES = ("cost_price", "cost_seconds", "cost_calls", "quality_of_plan", "score", "price", "execution_time_s")


def schedule(env: OpenCATPCallsEnv, seed: int) -> list[str]:
    """Play one schedule: a line for each action, with all figures in their exact form."""
    luck = np.random.default_rng(seed)
    _, info = env.reset(seed=seed)
    lines, ended = [], False
    while not ended:
        action = int(luck.choice(np.flatnonzero(info["action_mask"])))
        _, reward, terminated, truncated, info = env.step(action)
        ended = terminated or truncated
        values = [float(reward), *(float(info[name]) for name in FIGURES if info.get(name) is not None)]
        lines.append(f"{action} {ended} {' '.join(value.hex() for value in values)}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", nargs="?", type=int, default=400)
    parser.add_argument("--base", metavar="PYTHON", help="the other version's interpreter")
    args = parser.parse_args()
    env = costgym.make("costgym/OpenCATPCalls-v0", concurrent=True).unwrapped
    here = [schedule(env, seed) for seed in range(args.count)]  # type: ignore[arg-type]
    if not args.base:
        json.dump(here, sys.stdout)
        return
    command = [args.base, __file__, str(args.count)]
    there = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    differing = sum(a != b for a, b in zip(here, there, strict=True))
    print(f"{args.count} schedules, {sum(map(len, here))} actions: {differing} differ")
    sys.exit(differing > 0)


if __name__ == "__main__":
    main()
