"""Measure what five references and the shipped learner earn in each environment, and its speed, for the cards in the guide.

    python benchmarks/cards.py --json benchmarks/results/cards.json

Every environment is played with its default arguments on the tasks of `test`, all agents under the same seeds; language agents
use the simulated model. Steps a second are of one environment with random actions, resets included, relative to CartPole of the
same run.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import costgym

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.report import write_report

CARTPOLE, ROUNDS, ROUND_S = "CartPole-v1", 5, 0.3
CHATS = ("react", "cot@5", "dfsdt", "react+ecoact", "react+btp")
PLANS = ("random", "do-nothing", "fixed-all", "greedy", "oracle")
AGENTS: dict[str, tuple[str, ...]] = {
    "costgym/Marketplace-v0": ("random", "cheapest", "greedy", "bayes-index", "oracle-informed", "zoo:ppo"),
    "costgym/MarketplaceChat-v0": CHATS,
    "costgym/MarketplaceChat-v1": CHATS,
    "costgym/MarketplaceSession-v0": ("random", "greedy", "paced", "optimistic", "informed-paced", "zoo:sessions-v0"),
    "costgym/MarketplaceSession-v1": ("random", "greedy", "paced", "tuned", "informed", "zoo:sessions"),
    "costgym/MarketplaceSessionChat-v0": ("react", "react+prompt", "react+ecoact", "dfsdt", "react+btp"),
    "costgym/MarketplaceSessionChat-v1": ("react", "react+prompt", "react+ecoact", "dfsdt", "react+btp"),
    "costgym/OpenCATP-v0": (*PLANS, "zoo:catp"),
    "costgym/OpenCATP-v1": PLANS,
    "costgym/OpenCATPChat-v0": ("zero-shot", "few-shot", "hugginggpt", "hydra"),
    "costgym/OpenCATPChat-v1": ("zero-shot", "few-shot", "hugginggpt", "hydra"),
    "costgym/OpenCATPCalls-v0": PLANS,
    "costgym/DecisionAware-v0": ("random", "do-nothing", "deer-rule", "deer", "oracle", "zoo:deer"),
}
"""References from the least to the most that they know; a `zoo:` agent is the learner."""


def returns(env_id: str, agent: str, episodes: int) -> dict[str, Any]:
    """The mean return of an agent on `test`, with half of its 95 % interval."""
    with warnings.catch_warnings():  # of Gymnasium, that version 0 has a successor
        warnings.simplefilter("ignore", DeprecationWarning)
        env = costgym.make(env_id, split="test")
    results = costgym.rollout(env, agent, episodes)
    earned = np.array([result.quality for result in results], np.float64)
    half = 1.96 * float(earned.std(ddof=1)) / len(earned) ** 0.5
    return {
        "env": env_id,
        "agent": agent,
        "return": round(float(earned.mean()), 4),
        "half": round(half, 4),
        "episodes": len(earned),
    }


def playing(env: gym.Env[Any, Any]) -> Iterator[None]:
    """Play random actions for ever, drawn before the clock starts; allowed ones where there is a mask."""
    env.action_space.seed(0)
    env.reset(seed=0)
    actions = [env.action_space.sample() for _ in range(64)]
    while True:
        for action in actions:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()
            yield


def steps_s(play: Iterator[None]) -> float:
    """Steps in a second of this process's processor time."""
    begin, count = time.process_time(), 0
    while (spent := time.process_time() - begin) < ROUND_S:
        for _ in range(32):
            next(play)
        count += 32
    return count / spent


def speeds(env_ids: list[str]) -> list[dict[str, Any]]:
    """Medians over rounds that alternate between environments."""
    plays = {name: playing(gym.make(name)) for name in (CARTPOLE, *env_ids)}
    rounds = [{name: steps_s(play) for name, play in plays.items()} for _ in range(ROUNDS)]
    return [
        {
            "env": name,
            "steps_s": round(statistics.median(rates[name] for rates in rounds)),
            "to_cartpole": round(statistics.median(rates[name] / rates[CARTPOLE] for rates in rounds), 3),
        }
        for name in plays
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--envs", default=",".join(AGENTS))
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--sessions", type=int, default=40, help="episodes where one is a session")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    env_ids, rows = args.envs.split(","), []
    for env_id in env_ids:
        for agent in AGENTS[env_id]:
            rows.append(returns(env_id, agent, args.sessions if "Session" in env_id else args.episodes))
            print(rows[-1], file=sys.stderr, flush=True)
    write_report({"rows": rows, "speeds": speeds(env_ids)}, args.json, ("numpy", "gymnasium"))


if __name__ == "__main__":
    main()
