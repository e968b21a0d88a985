"""Measure whole episodes: rollouts with their resets, batches on several threads, and language agents.

    python benchmarks/episodes.py --json episodes.json

Threads are measured by the wall clock, everything else by this process's CPU time.
"""

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from costgym import make, make_vec, rollout
from costgym.agents import make_agent

ENV_ID, CHAT_ID, CARTPOLE = "costgym/Marketplace-v0", "costgym/MarketplaceChat-v0", "CartPole-v1"
LENGTHS = (5, 16)
"""Steps of an episode; the last one finishes."""
FORMS: dict[str, dict[str, Any]] = {"default": {}, "unlimited": {"mask": "legal", "budget": {}}}
"""With the default budget long episodes end in refused calls; without a limit every step but the last calls a tool."""
LANGUAGE_AGENTS = ("react", "dfsdt", "react+btp", "dfsdt+btp", "react+ecoact")
ROUNDS = 15
STEPS = 2_000  # of a round
BATCH = 1024
BATCH_STEPS = 100  # of a round


def measure_lengths(seed: int, rounds: int = ROUNDS, steps: int = STEPS, compiled: bool = False) -> list[dict[str, Any]]:
    """Measure scalar rollouts with their resets, at fixed lengths of episodes.

    Each round plays the same recorded actions in every kind, each between two rounds of CartPole.

    Args:
        seed: of the worlds and the actions.
        rounds, steps: number of rounds, and steps of each.
        compiled: measure the environment in compiled code too.

    Returns:
        One row per form, length and kind: steps per second, and the ratio to CartPole with its own resets; medians.
    """
    cartpole = gym.make(CARTPOLE)
    pushes = np.random.default_rng(seed).integers(0, 2, 2 * steps).tolist()
    rows = []
    for form, settings in FORMS.items():
        ways = {"scalar": False, "compiled": True} if compiled else {"scalar": False}
        kinds = {kind: make(ENV_ID, compiled=way, **settings) for kind, way in ways.items()}
        for length in LENGTHS:
            actions = _recorded(kinds["scalar"], length, steps, seed)
            rates: dict[str, list[float]] = {kind: [] for kind in kinds}
            ratios: dict[str, list[float]] = {kind: [] for kind in kinds}
            for env in kinds.values():
                _rate(env, actions, seed)  # compiles
            for _ in range(rounds):
                before = _rate(cartpole, pushes, seed)
                for kind, env in kinds.items():
                    rate = _rate(env, actions, seed)
                    after = _rate(cartpole, pushes, seed)
                    rates[kind].append(rate)
                    ratios[kind].append(2.0 * rate / (before + after))
                    before = after
            rows += [
                {
                    "env": ENV_ID,
                    "kind": kind,
                    "form": form,
                    "steps_per_episode": length,
                    "steps_per_second": round(statistics.median(rates[kind])),
                    "ratio_to_cartpole": round(statistics.median(ratios[kind]), 3),
                }
                for kind in kinds
            ]
    return rows


def _recorded(env: gym.Env[Any, Any], length: int, steps: int, seed: int) -> list[int]:
    """Random allowed calls; every episode finishes at its last step."""
    generator = np.random.default_rng(seed)
    finish: int = env.unwrapped.finish_action  # type: ignore[attr-defined]
    env.reset(seed=seed)
    _, info = env.reset()
    actions: list[int] = []
    left = length
    for _ in range(steps):
        calls = np.flatnonzero(info["action_mask"][:finish])
        action = finish if left == 1 else int(generator.choice(calls)) if calls.size else int(generator.integers(finish))
        actions.append(action)
        _, _, terminated, truncated, info = env.step(action)
        left -= 1
        if terminated or truncated:
            _, info = env.reset()
            left = length
    return actions


def _rate(env: gym.Env[Any, Any], actions: list[int], seed: int) -> float:
    env.reset(seed=seed)
    env.reset()
    begin = time.process_time()
    for action in actions:
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()
    return len(actions) / (time.process_time() - begin)


def measure_threads(seed: int, threads: int = 2, envs: int = BATCH, rounds: int = ROUNDS) -> dict[str, Any]:
    """Measure the native batch on one thread and on several, by the wall clock, in alternating rounds.

    Returns:
        Steps per second on one thread and on several, and the median of the rounds' ratios.
    """
    batches = [make_vec(ENV_ID, envs, threads=count) for count in (1, threads)]
    actions = np.random.default_rng(seed).integers(0, batches[0].single_action_space.n, (BATCH_STEPS, envs))  # type: ignore[attr-defined]
    rates: list[list[float]] = []
    for batch in batches:
        batch.reset(seed=seed)
        batch.step(actions[0])  # compiles
    for _ in range(rounds):
        rates.append([])
        for batch in batches:
            begin = time.perf_counter()
            for row in actions:
                batch.step(row)
            rates[-1].append(BATCH_STEPS * envs / (time.perf_counter() - begin))
    return {
        "envs": envs,
        "threads": threads,
        "steps_per_second_on_one": round(statistics.median(one for one, _ in rates)),
        "steps_per_second": round(statistics.median(several for _, several in rates)),
        "ratio_to_one": round(statistics.median(several / one for one, several in rates), 2),
    }


def measure_agents(seed: int, episodes: int = 60, rounds: int = 3) -> list[dict[str, Any]]:
    """Measure language agents on the simulated model: episodes per second, medians. A first round is not counted."""
    env = make(CHAT_ID, split="test", budget={"price": 20})
    rates: dict[str, list[float]] = {name: [] for name in LANGUAGE_AGENTS}
    for _ in range(1 + rounds):
        for name, rate in rates.items():
            agent = make_agent(name)
            begin = time.process_time()
            rollout(env, agent, episodes, seed)
            rate.append(episodes / (time.process_time() - begin))
    return [{"agent": name, "episodes_per_second": round(statistics.median(share[1:]), 1)} for name, share in rates.items()]


def measure_episodes(seed: int, native: bool = True) -> dict[str, Any]:
    """Measure rollouts and language agents, and with Numba compiled environments and threads too."""
    threads = measure_threads(seed) if native and (os.cpu_count() or 1) > 1 else None
    return {"rollouts": measure_lengths(seed, compiled=native), "agents": measure_agents(seed), "threads": threads}


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure whole episodes; needs the extra train.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    report = measure_episodes(options.seed)
    print(json.dumps(report, indent=1))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
