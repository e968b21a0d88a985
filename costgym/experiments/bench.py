"""Measure how fast the environments step, compared with Gymnasium's CartPole in the same run.

The speed of a host varies, so the rounds alternate between environments and the ratio is the result, of this process's own CPU
time on one thread. Random actions are drawn before the clock starts: masked sampling is slower than the step itself.
"""

import os
import platform
import statistics
import time
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import gymnasium as gym
import numpy as np

from costgym.envs.registration import make

ENV_ID, DECISION_ID, CARTPOLE = "costgym/Marketplace-v0", "costgym/DecisionAware-v0", "CartPole-v1"
SESSION_ID = "costgym/MarketplaceSession-v0"
IDS = (ENV_ID, SESSION_ID, DECISION_ID, "costgym/OpenCATP-v0", "costgym/OpenCATPCalls-v0")
SETTINGS: dict[str, dict[str, Any]] = {DECISION_ID: {"samples": {"counts": {"train": [100, 150, 250]}}}}
"""Fewer samples than DEER's 9,585, each of which is embedded at its first use, before any step."""
SINGLE = ("scalar", "compiled")  # beside CartPole of the kind `scalar`; others beside its native batch of their size
ROUNDS = 5
SIZES = (1, 64, 1024, 8192)  # numbers of environments in a vector
ACTIONS = 64  # number of action arrays drawn in advance
SHORTEST_S = 0.05  # shortest duration of a round, seconds; below it the clock's resolution would matter


@dataclass
class Entry:
    """A line of the table. Its kind is "scalar", "compiled", "sync" (Gymnasium's loop over scalar ones), "native", or
    "in place" (native, with `copy=False`)."""

    name: str
    kind: str
    envs: int  # number of environments that step at once
    env: Any
    actions: list[Any]  # actions to play in turn, each an integer or an array of one integer per environment
    rates: list[float] = field(default_factory=list)  # steps per second of each round
    resets: float = 0.0  # resets per second


def measure(steps: int, seed: int) -> dict[str, Any]:
    """Measure steps per second of each environment, as medians over alternating rounds of at least `steps` steps. Returns a
    JSON-able report: machine, and a row per environment with its ratio to CartPole of its kind and size."""
    generator = np.random.default_rng(seed)
    entries = [_scalar(name, generator, seed) for name in (CARTPOLE, *IDS)]
    native = find_spec("numba") is not None
    if native:
        entries += [_scalar(name, generator, seed, "compiled", compiled=True) for name in (ENV_ID, SESSION_ID)]
    for envs in SIZES:
        entries.append(_vector(CARTPOLE, envs, "native", generator, seed))
        if envs <= 64:
            entries += [_vector(name, envs, "sync", generator, seed, **SETTINGS.get(name, {})) for name in IDS]
        if native:
            entries.append(_vector(ENV_ID, envs, "native", generator, seed))
        if native and envs <= 1024:  # a session is drawn in Python when its episode begins
            entries.append(_vector(SESSION_ID, envs, "native", generator, seed))
        if native and envs >= 1024:
            entries.append(_vector(ENV_ID, envs, "in place", generator, seed, copy=False))
    for entry in entries:
        # the same episodes every time, and the first time does not count: tasks are written and embedded at their first use
        entry.resets = statistics.median([_reset_rate(entry, seed) for _ in range(ROUNDS)][1:])
    _play_rounds(entries, steps)
    report: dict[str, Any] = {
        "machine": {"processors": os.cpu_count(), "python": platform.python_version(), "system": platform.machine()},
        "steps": steps,
        "seed": seed,
        "rows": [_row(entry, entries) for entry in entries],
    }
    if native:
        batch = next(row for row in entries if (row.name, row.kind, row.envs) == (ENV_ID, "native", 1024))
        ratios = (a / b for a, b in zip(batch.rates, entries[1].rates, strict=True))
        report["native_1024_to_scalar"] = round(statistics.median(ratios), 1)
    return report


def _scalar(name: str, generator: np.random.Generator, seed: int, kind: str = "scalar", **settings: Any) -> Entry:
    env = gym.make(name) if name == CARTPOLE else make(name, **SETTINGS.get(name, {}) | settings)
    env.reset(seed=seed)
    assert isinstance(env.action_space, gym.spaces.Discrete)
    return Entry(name, kind, 1, env, generator.integers(0, env.action_space.n, 1000).tolist())


def _vector(name: str, envs: int, kind: str, generator: np.random.Generator, seed: int, **settings: Any) -> Entry:
    mode = "sync" if kind == "sync" else "vector_entry_point"
    env: Any = gym.make_vec(name, envs, vectorization_mode=mode, **settings)
    env.reset(seed=seed)
    return Entry(name, kind, envs, env, list(generator.integers(0, env.single_action_space.n, (ACTIONS, envs))))


def _play_rounds(entries: list[Entry], steps: int) -> None:
    """Measure the rates. A first round, not counted, compiles, fills caches and determines the number of steps of a round."""
    # fast environments take more steps, so that every round lasts longer than the clock's resolution
    wanted = [max(steps // ROUNDS, int(SHORTEST_S * _rate(entry, max(1, steps // ROUNDS)))) for entry in entries]
    for _ in range(ROUNDS):
        for entry, count in zip(entries, wanted, strict=True):
            entry.rates.append(_rate(entry, count))


def _rate(entry: Entry, steps: int) -> float:
    """Measure environment steps per second, resets included."""
    return _scalar_rate(entry, steps) if entry.kind in SINGLE else _vector_rate(entry, steps)


def _scalar_rate(entry: Entry, steps: int) -> float:
    env, actions, size = entry.env, entry.actions, len(entry.actions)
    env.reset()
    begin = time.process_time()
    for count in range(steps):
        _, _, terminated, truncated, _ = env.step(actions[count % size])
        if terminated or truncated:
            env.reset()
    return steps / (time.process_time() - begin)


def _vector_rate(entry: Entry, steps: int) -> float:
    env, actions = entry.env, entry.actions
    rounds = max(4, -(-steps // entry.envs))
    begin = time.process_time()
    for count in range(rounds):
        env.step(actions[count % ACTIONS])
    return rounds * entry.envs / (time.process_time() - begin)


def _reset_rate(entry: Entry, seed: int) -> float:
    rounds = max(3, 500 // entry.envs)
    entry.env.reset(seed=seed)
    begin = time.process_time()
    for _ in range(rounds):
        entry.env.reset()
    return rounds * entry.envs / (time.process_time() - begin)


def _row(entry: Entry, entries: list[Entry]) -> dict[str, Any]:
    kind = "scalar" if entry.kind in SINGLE else "native"
    base = next(other for other in entries if (other.name, other.kind, other.envs) == (CARTPOLE, kind, entry.envs))
    return {
        "env": entry.name,
        "kind": entry.kind,
        "envs": entry.envs,
        "steps_per_second": round(statistics.median(entry.rates)),
        "ratio_to_cartpole": round(statistics.median(a / b for a, b in zip(entry.rates, base.rates, strict=True)), 3),
        "resets_per_second": round(entry.resets),
    }


def print_bench(report: dict[str, Any], console: Any) -> None:
    """Print the report as a table."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for number, column in enumerate(("env", "kind", "envs", "steps/s", "× CartPole", "resets/s")):
        table.add_column(column, justify="left" if number == 0 else "right")
    for row in report["rows"]:
        figures = (f"{row['steps_per_second']:,}", f"{row['ratio_to_cartpole']:.2f}", f"{row['resets_per_second']:,}")
        table.add_row(row["env"], row["kind"], f"{row['envs']:,}", *figures)
    console.print(table)
    if "native_1024_to_scalar" not in report:
        console.print('The native batch needs Numba: pip install "costgym[train]"')
        return
    console.print(f"Native at 1,024: {report['native_1024_to_scalar']} × the scalar environment.")
