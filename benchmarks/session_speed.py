"""Steps a second of native sessions beside Marketplace and CartPole, in one run, and microseconds for a session that is drawn.

    python benchmarks/session_speed.py --sizes 64,1024,16384 --threads 1,2 --json benchmarks/results/session_speed.json

Actions are random and drawn before the clock starts, resets included, as in `costgym bench`; rounds alternate between
environments, and figures are medians of this process's own processor time (of the wall's, with several threads). `in place`
is `copy=False`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import costgym

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.report import write_report

IDS = ("CartPole-v1", "costgym/Marketplace-v0", "costgym/MarketplaceSession-v0", "costgym/MarketplaceSession-v1")
SESSION = IDS[-1]
ROUNDS, ACTIONS, ROUND_S = 5, 64, 0.4


class Entry:
    """An environment that is measured, and the steps a second of each round."""

    def __init__(self, name: str, size: int, threads: int, in_place: bool) -> None:
        settings = {} if name == IDS[0] else {"copy": not in_place, "threads": threads}
        make: Any = gym.make_vec if name == IDS[0] else costgym.make_vec
        mode = {"vectorization_mode": "vector_entry_point"} if name == IDS[0] else {}
        self.name, self.size, self.threads, self.in_place = name, size, threads, in_place
        self.env: Any = make(name, num_envs=size, **mode, **settings)
        self.env.reset(seed=0)
        actions = self.env.single_action_space.n
        self.actions = list(np.random.default_rng(0).integers(0, actions, (ACTIONS, size)))
        self.rates: list[float] = []
        self.play(8)  # compiles

    def play(self, steps: int) -> float:
        """Play so many steps; returns seconds."""
        clock = time.process_time if self.threads == 1 else time.perf_counter
        begin = clock()
        for step in range(steps):
            self.env.step(self.actions[step % ACTIONS])
        return clock() - begin

    def round(self) -> None:
        steps = max(8, int(8 * ROUND_S / max(self.play(8), 1e-6)))
        self.rates.append(steps * self.size / self.play(steps))


def draw_us(count: int = 256) -> float:
    """Microseconds in which compiled code draws and begins a session, over all of a batch that is reset."""
    env: Any = costgym.make_vec(SESSION, count)
    env.reset(seed=0)
    begin = time.process_time()
    for _ in range(20):
        env.reset()
    return 1e6 * (time.process_time() - begin) / (20 * count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="64,1024,16384")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    for threads in map(int, options.threads.split(",")):
        for size in map(int, options.sizes.split(",")):
            kinds = [
                Entry(name, size, threads, in_place)
                for name in IDS
                for in_place in (False, True)
                # version 0 draws its sessions in Python, all at the first reset
                if not (name == IDS[0] and (in_place or threads > 1)) and not (name == IDS[2] and (size > 1024 or in_place))
            ]
            for _ in range(ROUNDS):
                for entry in kinds:
                    entry.round()
            market = {entry.in_place: entry.rates for entry in kinds if entry.name == IDS[1]}
            for entry in kinds:
                rate = statistics.median(entry.rates)
                of = statistics.median(a / b for a, b in zip(entry.rates, market[entry.in_place], strict=True))
                row = {"env": entry.name, "size": size, "threads": threads, "in_place": entry.in_place}
                rows.append({**row, "steps_s": round(rate), "to_marketplace": round(of, 3)})
                print(
                    f"{entry.name:32} {size:6} {threads} {'in place' if entry.in_place else 'copy':8} {rate:12,.0f} {of:.3f}",
                    flush=True,
                )
    drawn = draw_us()
    print(f"a session is drawn and begun in {drawn:.1f} µs")
    write_report({"rows": rows, "draw_us": round(drawn, 2)}, options.json, ("numpy", "numba", "gymnasium"))


if __name__ == "__main__":
    main()
