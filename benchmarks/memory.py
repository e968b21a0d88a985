"""Long rollouts hold memory flat.

    python benchmarks/memory.py [steps]
    python benchmarks/memory.py --resets 5000,20000,40000 --scenario marketplace --split train-large

Prints the resident memory at every mark. By default the marks are every tenth of a million steps, in the scenario `storm`; with
`--resets` they are numbers of episodes, each of a reset and three steps. The last line compares the last mark with the first.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import costgym

STEPS_PER_RESET = 3
"""Steps of an episode with `--resets`: enough to call tools, so that their answers are made."""


def resident_mib() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no VmRSS in /proc/self/status: this script needs Linux")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", nargs="?", type=int, default=1_000_000)
    parser.add_argument("--resets", help="numbers of episodes after which to look, with commas between")
    parser.add_argument("--scenario", default="storm")
    parser.add_argument("--split", default="train")
    given = parser.parse_args()
    env = costgym.make("costgym/Marketplace-v0", scenario=given.scenario, split=given.split)
    actions = np.random.default_rng(0).integers(0, env.action_space.n, 10_007).tolist()  # type: ignore[attr-defined]
    tenth = given.steps // 10
    marks = [int(mark) for mark in given.resets.split(",")] if given.resets else [tenth * part for part in range(1, 11)]
    unit, found, step, done = "resets" if given.resets else "steps", [], 0, 0
    env.reset(seed=0)
    while len(found) < len(marks):
        _, _, terminated, truncated, _ = env.step(actions[step % 10_007])
        step += 1
        if terminated or truncated or (given.resets and step % STEPS_PER_RESET == 0):
            env.reset()
            done += 1 if given.resets else 0
        done += 0 if given.resets else 1
        if done >= marks[len(found)]:
            found.append(resident_mib())
            print(f"{done:>9} {unit}  {found[-1]:8.1f} MiB", flush=True)
    print(f"growth after the first mark: {found[-1] - found[0]:+.1f} MiB")


if __name__ == "__main__":
    main()
