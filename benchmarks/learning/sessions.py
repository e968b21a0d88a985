"""Train stock MaskablePPO of sb3-contrib on sessions with counted features, and measure it beside the references.

    python benchmarks/learning/sessions.py --minutes 5 --sessions 100 --json benchmarks/results/sessions_ppo.json

The policy is sb3-contrib's `MultiInputPolicy` with its default settings, but for a discount of 0.995, rollouts of 512 steps in
8 environments and rewards divided by 20. It learns from `train` sessions and is measured on `test` sessions, deterministically.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import costgym
from costgym.agents import make_agent
from costgym.agents.base import SESSION
from costgym.agents.function import FunctionAgent
from costgym.experiments.play.rollout import play

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.report import write_report


def make_env() -> gym.Env[Any, Any]:
    """An environment to learn in."""
    env = costgym.make(SESSION, split="train", disable_env_checker=True)
    return gym.wrappers.TransformReward(env, lambda reward: reward / 20.0)


def shares(agent: Any, sessions: int) -> np.ndarray:
    """The value share of test sessions."""
    env = costgym.make(SESSION, split="test", disable_env_checker=True)
    return np.array([play(env, agent, number, 0).value_share for number in env.unwrapped.numbers[:sessions]])  # type: ignore[attr-defined]


def learn(minutes: float, seed: int) -> tuple[Any, int]:
    """Train for some minutes of processor time; returns the model and its steps."""
    import torch
    from sb3_contrib import MaskablePPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env

    torch.set_num_threads(1)

    class Stop(BaseCallback):
        def _on_step(self) -> bool:
            return time.process_time() - began < 60.0 * minutes

    model = MaskablePPO(
        "MultiInputPolicy", make_vec_env(make_env, 8, seed), n_steps=512, batch_size=256, gamma=0.995, seed=seed, device="cpu"
    )
    began = time.process_time()
    model.learn(10**9, callback=Stop())
    return model, int(model.num_timesteps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5.0, help="of processor time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    model, steps = learn(given.minutes, given.seed)

    def choose(observation: Any, info: dict[str, Any]) -> int:
        return int(model.predict(observation, action_masks=info["action_mask"], deterministic=True)[0])

    rows = []
    for name, agent in (
        ("ppo", FunctionAgent(choose, SESSION)),
        *((name, make_agent(name, SESSION)) for name in ("greedy", "bayes-index", "paced", "optimistic")),
    ):
        found = shares(agent, given.sessions)
        half = 1.96 * float(found.std(ddof=1)) / len(found) ** 0.5
        rows.append({"agent": name, "value_share": float(found.mean()), "half": half})
        print(f"{name:12} {found.mean():.4f} ± {half:.4f}", flush=True)
    report = {"minutes": given.minutes, "steps": steps, "seed": given.seed, "sessions": given.sessions, "rows": rows}
    write_report(report, given.json, ("numpy", "gymnasium", "stable_baselines3", "sb3_contrib", "torch"))


if __name__ == "__main__":
    main()
