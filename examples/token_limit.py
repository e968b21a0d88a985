"""A limit on tokens that is learnt: sb3-contrib's MaskablePPO and `LagrangianReward` in `DecisionAware-v0`.

    python examples/token_limit.py --limit 500

A search puts the candidates' documentation into the prompt, so it takes most of an episode's tokens. The learner is to decide
as well as it can while an episode takes at most `--limit` tokens on average: the reward loses `multiplier` for every token, and
the multiplier follows by dual ascent after every update. `--limit 0` learns without a limit. The policy is measured as it was
trained, by drawing from it: under a limit on a mean, the best policy is a mixture.

Measured in a world of other tools (`benchmarks/learning/limits.py tokens`, 2026-11-22, about two minutes of processor time,
900 test episodes): right 0.551 with 495 tokens, means of five seeds; three of them keep the limit of 500.
"""

import argparse
import time
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

import costgym  # noqa: F401  registers the environments
from costgym.envs.wrappers import LagrangianReward

RATE = 0.1  # of the dual ascent: the multiplier's step for twice the limit, in units of 1 / limit
MARGIN = 0.05  # share below the limit that is aimed at, for the tools that were not seen


def world(split: str = "train", scenario: Any = "decision") -> gym.Env[Any, Any]:
    """The decisions, with tokens as the cost; the reward loses a price on them."""
    return LagrangianReward(gym.make("costgym/DecisionAware-v0", scenario=scenario, split=split, cost="tokens"))


class DualAscent(BaseCallback):
    """Raises the price of a token after updates whose episodes took too many, and lowers it after the others."""

    def __init__(self, limit: float, rate: float = RATE) -> None:
        super().__init__()
        self.target, self.rate, self.multiplier = (1.0 - MARGIN) * limit, rate, 0.0
        self.tokens: list[float] = []

    def _on_step(self) -> bool:
        over = zip(self.locals["infos"], self.locals["dones"], strict=True)
        self.tokens += [info["cost_sum"] for info, done in over if done]
        return True

    def _on_rollout_end(self) -> None:
        mean, self.tokens = float(np.mean(self.tokens)), []
        if self.target:
            self.multiplier = max(0.0, self.multiplier + self.rate * (mean / self.target - 1.0) / self.target)
            for env in self.training_env.envs:  # type: ignore[attr-defined]
                env.set_wrapper_attr("multiplier", self.multiplier)
        print(f"{self.num_timesteps:7} decisions  {mean:5.0f} tokens  multiplier {self.multiplier:.6f}", flush=True)


def train(limit: float, decisions: int, seed: int, rate: float = RATE, scenario: Any = "decision") -> MaskablePPO:
    """Learn under a limit on the mean tokens of an episode; 0 for none."""
    envs = make_vec_env(lambda: world("train", scenario), 8, seed)
    model = MaskablePPO("MultiInputPolicy", envs, n_steps=256, ent_coef=0.01, gamma=1.0, seed=seed, device="cpu")
    return model.learn(decisions, callback=DualAscent(limit, rate))


def measure(model: MaskablePPO, episodes: int, split: str = "test", scenario: Any = "decision") -> tuple[float, float]:
    """Share of a split's first episodes that are decided rightly, and their mean tokens."""
    env, success, tokens = world(split, scenario), 0, 0.0
    for number in range(episodes):
        observation, info = env.reset(seed=number, options={"task": env.unwrapped.numbers[number]})  # type: ignore[attr-defined]
        over = False
        while not over:
            action, _ = model.predict(observation, action_masks=info["action_mask"])
            observation, _, terminated, truncated, info = env.step(int(action))
            over = terminated or truncated
        success, tokens = success + info["is_success"], tokens + info["cost_sum"]
    return success / episodes, tokens / episodes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=float, default=500.0, help="on the mean tokens of an episode; 0: none")
    parser.add_argument("--decisions", type=int, default=81_920)
    parser.add_argument("--episodes", type=int, default=900, help="of the test")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    began = time.process_time()
    model = train(args.limit, args.decisions, args.seed)
    print(f"{time.process_time() - began:.0f} seconds of processor time")
    success, tokens = measure(model, args.episodes)
    verdict = "no limit" if not args.limit else f"limit {args.limit:g}: {'kept' if tokens <= args.limit else 'broken'}"
    print(f"{args.episodes} test episodes: right {success:.3f}, {tokens:.0f} tokens, {verdict}")


if __name__ == "__main__":
    main()
