"""Measure how fast plans are evaluated from the outcome table, and how fast the OpenCATP environments step.

    python benchmarks/opencatp/speed.py [--table FILE] [--plans N] [--steps N] [--json FILE]

Plans per second: every plan of the oracles' space, then random plans in the planning language, each evaluated for the first
time and again. Steps per second: random actions within the mask, resets included, beside Gymnasium's CartPole. Rounds
alternate and medians count; rates are per second of processor time, with the wall clock beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym

from costgym.envs.opencatp.calls import OpenCATPCallsEnv
from costgym.envs.opencatp.plans import OpenCATPEnv
from costgym.envs.tpl import TplState, kind_of
from costgym.simulators.opencatp import Evaluator, OpenCATPTask, OutcomeTable, all_tasks
from costgym.simulators.opencatp.plan_space import plan_space
from costgym.simulators.plan import Plan

ROUNDS = 5
Job = tuple[Plan, OpenCATPTask, int]


def space_jobs(count: int, seed: int) -> list[Job]:
    """Plans of the oracles' space, drawn without preference, on drawn samples."""
    draw, tasks = random.Random(seed), all_tasks()
    jobs = []
    for _ in range(count):
        task = draw.choice(tasks)
        jobs.append((draw.choice(plan_space(task.wants).plans), task, draw.randrange(100)))
    return jobs


def random_jobs(count: int, seed: int) -> list[Job]:
    """Walks through the planning language, every allowed token alike."""
    draw, tasks = random.Random(seed), all_tasks()
    jobs = []
    for _ in range(count):
        task = draw.choice(tasks)
        state = TplState(kind_of(task))
        while not state.done:
            state.push(draw.choice(state.actions()))
        jobs.append((state.plan(), task, draw.randrange(100)))
    return jobs


def plan_rate(evaluator: Evaluator, jobs: Sequence[Job]) -> tuple[float, float]:
    """Evaluations per second of processor time, and of the wall clock."""
    evaluate = evaluator.evaluate
    wall, own = time.perf_counter(), time.process_time()
    for plan, task, sample in jobs:
        evaluate(plan, task, sample)
    own, wall = time.process_time() - own, time.perf_counter() - wall
    return len(jobs) / own, len(jobs) / wall


def plans(path: Path | None, count: int) -> list[dict[str, Any]]:
    """A row per kind of plan. First times use plans, evaluator and table that were never used."""
    kinds: tuple[tuple[str, Callable[[int, int], list[Job]]], ...] = (
        ("plans of the oracles' space", space_jobs),
        ("random plans", random_jobs),
    )
    rates: dict[str, list[tuple[float, float]]] = {}
    for seed in range(ROUNDS):
        for name, make in kinds:
            jobs = make(count, seed)
            evaluator = Evaluator(OutcomeTable.load(path))
            for when in ("first time", "again"):
                rates.setdefault(f"{name}, {when}", []).append(plan_rate(evaluator, jobs))
    return [_row(name, "plans_per_second", figures) for name, figures in rates.items()]


def env_rate(env: gym.Env[Any, Any], steps: int, draw: random.Random) -> tuple[float, float]:
    """Steps per second of processor time, and of the wall clock; masked actions where there is a mask."""
    _, info = env.reset()
    masked = "action_mask" in info
    chance = [draw.random() for _ in range(997)]
    wall, own = time.perf_counter(), time.process_time()
    for step in range(steps):
        if not masked:
            action = int(2 * chance[step % 997])
        else:
            allowed = info["action_mask"].nonzero()[0]
            action = int(allowed[int(len(allowed) * chance[step % 997])])
        _, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            _, info = env.reset()
    own, wall = time.process_time() - own, time.perf_counter() - wall
    return steps / own, steps / wall


def steps(path: Path | None, count: int) -> list[dict[str, Any]]:
    """A row per environment."""
    table = OutcomeTable.load(path)
    envs: dict[str, gym.Env[Any, Any]] = {
        "CartPole-v1": gym.make("CartPole-v1"),
        "costgym/OpenCATP-v0": OpenCATPEnv(tasks="all", scores=table),
        "costgym/OpenCATPCalls-v0": OpenCATPCallsEnv(tasks="all", scores=table),
    }
    rates: dict[str, list[tuple[float, float]]] = {name: [] for name in envs}
    for env in envs.values():
        env.reset(seed=0)
    for number in range(-1, ROUNDS):
        for name, env in envs.items():
            figures = env_rate(env, count // 5 if number < 0 else count, random.Random(number))
            if number >= 0:
                rates[name].append(figures)
    rows = [_row(name, "steps_per_second", figures) for name, figures in rates.items()]
    for row in rows:
        base = rates["CartPole-v1"]
        own = rates[row["name"]]
        row["ratio_to_cartpole"] = round(statistics.median(a[0] / b[0] for a, b in zip(own, base, strict=True)), 3)
    return rows


def _row(name: str, unit: str, figures: list[tuple[float, float]]) -> dict[str, Any]:
    own, wall = zip(*figures, strict=True)
    return {
        "name": name,
        unit: round(statistics.median(own)),
        "lowest": round(min(own)),
        "wall_clock": round(statistics.median(wall)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", type=Path, default=None, help="outcome table; default: the shipped one")
    parser.add_argument("--plans", type=int, default=20_000, help="evaluations per round")
    parser.add_argument("--steps", type=int, default=20_000, help="environment steps per round")
    parser.add_argument("--json", type=Path, default=None)
    arguments = parser.parse_args()
    report = {
        "machine": {"processors": os.cpu_count(), "python": platform.python_version(), "system": platform.machine()},
        "rounds": ROUNDS,
        "plans": plans(arguments.table, arguments.plans),
        "steps": steps(arguments.table, arguments.steps),
    }
    for unit, rows in (("plans_per_second", report["plans"]), ("steps_per_second", report["steps"])):
        for row in rows:
            ratio = f"  {row['ratio_to_cartpole']:.3f} x CartPole" if "ratio_to_cartpole" in row else ""
            print(f"{row['name']:42} {row[unit]:>9,} {unit} (lowest {row['lowest']:,}, wall {row['wall_clock']:,}){ratio}")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
