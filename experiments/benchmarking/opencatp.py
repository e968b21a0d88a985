"""Measure the speed of OpenCATP: steps of the scalar and the native environments, and whole plans scored in batch.

Most plans would end at their first token under uniform actions, so actions are drawn from the mask in advance; every round
plays the same episodes. The score of a text is computed once per process, while actions are drawn.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ...envs.registration import make, make_vec
from ...envs.tpl import KINDS, TplState

PLANS_ID, CALLS_ID = "costgym/OpenCATP-v0", "costgym/OpenCATPCalls-v0"
ROUNDS = 5
SIZES = (1, 64, 1024, 8192)
STEPS = 64
"""Steps of each environment in a round."""
SHORTEST_S = 0.05
"""Shortest duration of a round, seconds."""
SCALAR_STEPS = 2_000

Round = Callable[[], float]


def measure_opencatp(seed: int, plans: int = 20_000) -> dict[str, Any]:
    """Measure steps per second, memory per environment and plans per second, as medians over rounds of CPU time.

    Args:
        seed: seed of the episodes, the actions and the plans.
        plans: number of plans to score.

    Returns:
        A JSON-able report: `rows` (env, kind, envs, steps_per_second), `memory` of the largest batch, `plans_per_second` by the
        form in which plans are given.
    """
    rows = []
    memory: dict[str, dict[str, int]] = {}
    for env_id in (PLANS_ID, CALLS_ID):
        rows.append(_row(env_id, "scalar", 1, SCALAR_STEPS, _scalar_round(env_id, seed)))
        for envs in SIZES:
            env = make_vec(env_id, envs, tasks="all")
            rows.append(_row(env_id, "native", envs, STEPS * envs, _vector_round(env, seed)))
            unwrapped: Any = env.unwrapped
            memory[env_id] = {
                "envs": envs,
                "state_bytes_per_env": round(unwrapped.nbytes / envs),
                "shared_bytes": unwrapped.shared_nbytes,
            }
    return {"rows": rows, "memory": memory, "plans_per_second": _plans(seed, plans)}


def _row(env_id: str, kind: str, envs: int, steps: int, play: Round) -> dict[str, Any]:
    return {"env": env_id, "kind": kind, "envs": envs, "steps_per_second": round(_rate(play, steps))}


def _rate(play: Round, count: int) -> float:
    """Measure passes per second. Each round is the mean of as many passes as fill the shortest duration."""
    passes = max(1, round(SHORTEST_S / max(1e-6, play())))
    return statistics.median(count * passes / sum(play() for _ in range(passes)) for _ in range(ROUNDS))


def _vector_round(env: Any, seed: int) -> Round:
    generator = np.random.default_rng(seed)
    env.reset(seed=seed)
    actions = []
    for _ in range(STEPS):
        mask = env.unwrapped.action_masks()
        actions.append((generator.random(mask.shape, np.float32) * mask).argmax(axis=1))
        env.step(actions[-1])

    def play() -> float:
        env.reset(seed=seed)
        begin = time.process_time()
        for each in actions:
            env.step(each)
        return time.process_time() - begin

    return play


def _scalar_round(env_id: str, seed: int) -> Round:
    env = make(env_id, tasks="all")
    generator = np.random.default_rng(seed)
    actions: list[int] = []

    def play() -> float:
        """The first time actions are drawn."""
        _, info = env.reset(seed=seed)
        drawn = not actions
        begin = time.process_time()
        for step in range(SCALAR_STEPS):
            if drawn:
                actions.append(int(generator.choice(np.flatnonzero(info["action_mask"]))))
            _, _, terminated, truncated, info = env.step(actions[step])
            if terminated or truncated:
                _, info = env.reset()
        return time.process_time() - begin

    play()
    return play


def _plans(seed: int, count: int) -> dict[str, int]:
    """Measure whole plans scored per second: as an array of tokens, as lists of tokens, as `Plan`s, and one by one."""
    from ...simulators.opencatp.batch.scorer import PlanScorer
    from ...simulators.opencatp.tasks import all_tasks

    luck, tasks = random.Random(seed), all_tasks()
    written, plans = [], []
    for _ in range(count):
        state = TplState(luck.choice(KINDS))
        while not state.done:
            state.push(luck.choice(state.actions()))
        written.append(state.tokens)
        plans.append(state.plan())
    chosen = [luck.choice(tasks) for _ in range(count)]
    numbers = np.array([task.task_id for task in chosen])
    samples = np.array([luck.randrange(100) for _ in range(count)])
    array = np.zeros((count, max(map(len, written))), np.int64)
    for number, tokens in enumerate(written):
        array[number, : len(tokens)] = tokens
    scorer = PlanScorer()

    def batch(given: Any) -> Round:
        def play() -> float:
            begin = time.process_time()
            scorer.score(given, numbers, samples)
            return time.process_time() - begin

        return play

    def single() -> float:
        begin = time.process_time()
        for plan, task, sample in zip(plans, chosen, samples.tolist(), strict=True):
            scorer.evaluator.evaluate(plan, task, sample)
        return time.process_time() - begin

    forms = (("array", batch(array)), ("token lists", batch(written)), ("plans", batch(plans)), ("one by one", single))
    return {name: round(_rate(play, count)) for name, play in forms}


def print_opencatp(report: dict[str, Any], console: Any) -> None:
    """Print the report as tables."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for number, column in enumerate(("OpenCATP, legal actions", "kind", "envs", "steps/s")):
        table.add_column(column, justify="left" if number == 0 else "right")
    for row in report["rows"]:
        table.add_row(row["env"], row["kind"], f"{row['envs']:,}", f"{row['steps_per_second']:,}")
    console.print(table)
    for env_id, memory in report["memory"].items():
        held, shared = memory["state_bytes_per_env"], memory["shared_bytes"] / 1e6
        console.print(f"{env_id} at {memory['envs']:,}: {held:,} bytes per environment held; {shared:.1f} MB shared tables.")
    forms = ", ".join(f"{name} {rate:,}" for name, rate in report["plans_per_second"].items())
    console.print(f"Whole plans scored a second: {forms}.")
