"""How fast the environments step, beside Gymnasium's CartPole in the same run.

Host speed swings, so the rounds alternate and the ratio is what counts. Random actions come from a list drawn before the clock
starts: `Dict.sample()` and masked sampling are slower than the step itself.
"""

from __future__ import annotations

import os
import platform
import statistics
import time
from typing import Any

import gymnasium as gym
import numpy as np

from ..envs.registration import make

ROUNDS = 5


def measure(steps: int, seed: int) -> dict[str, Any]:
    """Steps per second of each environment, as medians over alternating rounds.

    Args:
        steps: per environment in all.
        seed: of the worlds and the actions.

    Returns:
        A JSON-able report: machine, date-free figures and the ratios to CartPole.
    """
    envs: dict[str, tuple[gym.Env[Any, Any], list[Any]]] = {
        "CartPole-v1": (gym.make("CartPole-v1"), []),
        "costgym/Marketplace-v0": (make("costgym/Marketplace-v0"), []),
    }
    generator = np.random.default_rng(seed)
    rates: dict[str, list[float]] = {name: [] for name in envs}
    resets: dict[str, float] = {}
    for name, (env, actions) in envs.items():
        env.reset(seed=seed)
        assert isinstance(env.action_space, gym.spaces.Discrete)
        actions.extend(generator.integers(0, env.action_space.n, 1000).tolist())
        _rate(env, actions, steps // ROUNDS // 5)
        resets[name] = _reset_rate(env, 500)
    for _ in range(ROUNDS):
        for name, (env, actions) in envs.items():
            rates[name].append(_rate(env, actions, steps // ROUNDS))
    base = rates["CartPole-v1"]
    rows = [
        {
            "env": name,
            "steps_per_second": round(statistics.median(rates[name])),
            "ratio_to_cartpole": round(statistics.median(a / b for a, b in zip(rates[name], base, strict=True)), 3),
            "resets_per_second": round(resets[name]),
        }
        for name in envs
    ]
    return {
        "machine": {"processors": os.cpu_count(), "python": platform.python_version(), "system": platform.machine()},
        "steps": steps,
        "seed": seed,
        "rows": rows,
    }


def _rate(env: gym.Env[Any, Any], actions: list[Any], steps: int) -> float:
    """Steps per second, resets included as they come."""
    count, size = 0, len(actions)
    env.reset()
    begin = time.perf_counter()
    while count < steps:
        _, _, terminated, truncated, _ = env.step(actions[count % size])
        count += 1
        if terminated or truncated:
            env.reset()
    return steps / (time.perf_counter() - begin)


def _reset_rate(env: gym.Env[Any, Any], count: int) -> float:
    begin = time.perf_counter()
    for _ in range(count):
        env.reset()
    return count / (time.perf_counter() - begin)


def print_bench(report: dict[str, Any], console: Any) -> None:
    """The report as a table."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column, justify in (("env", "left"), ("steps/s", "right"), ("× CartPole", "right"), ("resets/s", "right")):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    for row in report["rows"]:
        figures = (f"{row['steps_per_second']:,}", f"{row['ratio_to_cartpole']:.2f}", f"{row['resets_per_second']:,}")
        table.add_row(row["env"], *figures)
    console.print(table)
