"""A million steps of rollouts hold memory flat.

    python benchmarks/memory.py [steps]

Prints the resident memory every tenth of the way; the last line compares the end with the first tenth, when all caches are
warm.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import costgym


def resident_mb() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no VmRSS in /proc/self/status: this script needs Linux")


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    env = costgym.make("costgym/Marketplace-v0", scenario="storm")
    actions = np.random.default_rng(0).integers(0, env.action_space.n, 10_007).tolist()  # type: ignore[attr-defined]
    env.reset(seed=0)
    marks = []
    for step in range(1, steps + 1):
        _, _, terminated, truncated, _ = env.step(actions[step % 10_007])
        if terminated or truncated:
            env.reset()
        if step % (steps // 10) == 0:
            marks.append(resident_mb())
            print(f"{step:>9} steps  {marks[-1]:8.1f} MB", flush=True)
    print(f"growth after the first tenth: {marks[-1] - marks[0]:+.1f} MB")


if __name__ == "__main__":
    main()
