"""Measure what each trick of the compiled environments brings over the plain way to do the same.

    python benchmarks/tricks.py

Needs the extra `train`. Prints microseconds of processor time with and without each: arguments that are unpacked once
(`simulators/batch/arguments.py`), figures that are read in one piece (`envs/vector/single.py`), observation arrays that are
handed out again (`envs/vector/checks.py`), time that passes without an event of SimPy (`simulators/world/episode.py`), and
seeds of episodes that are read off the generator (`envs/base.py`).
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
import costgym
from costgym.envs.marketplace import MarketplaceEnv
from costgym.simulators.batch.arguments import BoundArguments, bound_arguments
from costgym.simulators.batch.rng import compiled
from costgym.simulators.clock import Clock

ROUNDS = 5


def microseconds(run: Callable[[], Any], count: int) -> float:
    """The best of some rounds, microseconds of processor time a call."""
    run()
    best = float("inf")
    for _ in range(ROUNDS):
        begin = time.process_time()
        for _ in range(count):
            run()
        best = min(best, time.process_time() - begin)
    return 1e6 * best / count


@compiled
def take_bound(bound: Any, number: int) -> int:
    tables, _, _, _, _, _ = bound_arguments(bound)
    return number + tables.number.size


@compiled
def take_tuple(content: Any, number: int) -> int:
    return number + content[0].number.size


class NewArrays:
    """The plain way: new arrays at every step."""

    def empty(self, *shape: int) -> Any:
        return np.empty(shape, np.float32)


def main() -> None:
    env = MarketplaceEnv(compiled=True)
    env.reset(seed=0)
    single = env._compiled._batch  # type: ignore[union-attr]
    assert single is not None
    content = single._bound.content[:6]  # type: ignore[union-attr]
    bound, out = BoundArguments(content), single._out
    vector = costgym.make_vec("costgym/Marketplace-v0", 4096).unwrapped
    vector.reset(seed=0)
    actions = np.zeros(4096, np.int64)

    def by_arrays() -> Any:
        ends = bool(out.success[0]), bool(out.terminated[0]), bool(out.truncated[0])
        return (float(out.rewards[0]), *out.figures[:, 0].tolist(), *out.counts[:, 0].tolist(), *ends)

    plain, quick = microseconds(lambda: take_tuple(content, 1), 2_000), microseconds(lambda: take_bound(bound, 1), 2_000)
    rows = [("arguments unpacked once", plain, quick)]
    plain, quick = microseconds(by_arrays, 20_000), microseconds(lambda: single.read(single.memory), 20_000)
    rows.append(("figures in one piece", plain, quick))
    pooled, vector._pool = vector._pool, NewArrays()  # type: ignore[attr-defined]
    plain = microseconds(lambda: vector.step(actions), 40)
    vector._pool = pooled  # type: ignore[attr-defined]
    rows.append(("arrays handed out again", plain, microseconds(lambda: vector.step(actions), 40)))
    clock = Clock()

    def by_event() -> None:
        timeout = clock.timeout(0.1)
        while not timeout.processed:
            clock.step()

    def without_event() -> None:
        if not clock._queue:
            clock._now += 0.1

    rows.append(("time without an event", microseconds(by_event, 20_000), microseconds(without_event, 20_000)))
    generator = np.random.Generator(np.random.PCG64(0))
    plain = microseconds(lambda: int(generator.integers(1 << 62)), 20_000)
    rows.append(("the seed of an episode", plain, microseconds(lambda: generator.bit_generator.random_raw() >> 2, 20_000)))
    for name, without, with_it in rows:
        print(f"{name:26} {without:10.2f} {with_it:10.2f} {without / with_it:6.2f} x")


if __name__ == "__main__":
    main()
