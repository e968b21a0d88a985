"""Train the policies whose stages play the named datasets `medium`, `mixed` and `replay`.

    OMP_NUM_THREADS=1 python benchmarks/learning/stages.py marketplace marketplace-constrained opencatp-calls

For each world, MaskablePPO of sb3-contrib with its `MlpPolicy` learns from flattened observations on the train split, and its
policy is kept at the steps of `STAGES`. In `marketplace-constrained` the mean price of an episode is held at a limit by a
Lagrange multiplier. The weights go to `agents/stages/weights/WORLD.npz`. The same seed gives the same weights on the same
machine and versions of PyTorch and NumPy.
"""

import argparse
import json
import platform
import time
from typing import Any

import gymnasium as gym
import numpy as np
import sb3_contrib
import stable_baselines3
import torch
from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv

import costgym
from costgym.agents.stages.policy import ABOUT, WEIGHTS, WORLDS
from costgym.envs.wrappers import FlattenObservation, LagrangianReward
from costgym.experiments.play.named.catalogue import family_of

STAGES = (0, 8_192, 16_384, 32_768, 65_536, 98_304)  # decisions
ENVIRONMENTS = 8
SETTINGS: dict[str, Any] = {"n_steps": 256, "batch_size": 256, "gamma": 1.0, "learning_rate": 1e-3, "ent_coef": 0.01}
RATE, GAIN = 5e-4, 2e-3  # of the multiplier's integral and proportional terms


class Stages(BaseCallback):
    """Keep the policy's weights at the steps of `STAGES`, and let the multiplier follow the mean cost."""

    def __init__(self, envs: list[gym.Env[Any, Any]], limit: float | None) -> None:
        super().__init__()
        self.envs, self.limit, self.integral = envs, limit, 0.0
        self.kept: list[dict[str, np.ndarray[Any, Any]]] = []
        self.returns: list[float] = []
        self.costs: list[float] = []
        self._sums, self._ended = np.zeros(len(envs)), []

    def _on_rollout_start(self) -> None:
        self._look()

    def _on_training_end(self) -> None:
        self._look()

    def _look(self) -> None:
        if self._ended and self.limit is not None:
            excess = float(np.mean([cost for _, cost in self._ended])) - self.limit
            self.integral = max(0.0, self.integral + RATE * excess)
            for env in self.envs:
                env.get_wrapper_attr("set_multiplier")(max(0.0, self.integral + GAIN * excess))
        if len(self.kept) < len(STAGES) and self.num_timesteps >= STAGES[len(self.kept)]:
            actor = self.model.policy
            layers = [layer for layer in actor.mlp_extractor.policy_net if hasattr(layer, "weight")] + [actor.action_net]
            parts = {}
            for number, layer in enumerate(layers):
                parts[f"weight{number}"] = layer.weight.detach().numpy().copy()
                parts[f"bias{number}"] = layer.bias.detach().numpy().copy()
            self.kept.append(parts)
            means = np.mean(self._ended, axis=0) if self._ended else (float("nan"), float("nan"))
            self.returns.append(round(float(means[0]), 4))
            self.costs.append(round(float(means[1]), 3))
            print(f"  {self.num_timesteps} decisions: return {means[0]:.3f}, cost {means[1]:.2f}", flush=True)
        self._ended = []

    def _on_step(self) -> bool:
        for index, (info, over) in enumerate(zip(self.locals["infos"], self.locals["dones"], strict=True)):
            self._sums[index] += info["reward"]
            if over:
                self._ended.append((float(self._sums[index]), float(info["cost_sum"])))
                self._sums[index] = 0.0
        return True


class Learning(LagrangianReward):
    """The environment as the learner sees it."""

    def set_multiplier(self, value: float) -> None:
        """Set the price of a unit of cost in the reward."""
        self.multiplier = value

    def action_masks(self) -> Any:
        """The mask, where sb3-contrib looks for it."""
        return self.unwrapped.action_masks()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("worlds", nargs="+", choices=list(WORLDS))
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    for world in args.worlds:
        print(world)
        began = time.process_time()
        family = family_of(world)
        envs = [
            Learning(FlattenObservation(costgym.make(family.env_id, disable_env_checker=True, **family.arguments)))
            for _ in range(ENVIRONMENTS)
        ]
        batch = DummyVecEnv([lambda env=env: env for env in envs])
        stages = Stages(envs, family.cost_limit)
        model = MaskablePPO("MlpPolicy", batch, seed=args.seed, **SETTINGS)
        model.learn(STAGES[-1], callback=stages)
        assert len(stages.kept) == len(STAGES)
        about = {
            "algorithm": "MaskablePPO, MlpPolicy",
            "command": f"python benchmarks/learning/stages.py {world} --seed {args.seed}",
            "seed": args.seed,
            "environments": ENVIRONMENTS,
            "settings": SETTINGS,
            "steps": STAGES,
            "returns": [None if np.isnan(value) else value for value in stages.returns],
            "costs": [None if np.isnan(value) else value for value in stages.costs],
            "versions": {
                "costgym": costgym.__version__,
                "torch": torch.__version__,
                "stable-baselines3": stable_baselines3.__version__,
                "sb3-contrib": sb3_contrib.__version__,
                "python": platform.python_version(),
            },
        }
        arrays = {
            f"{number}/{name}": value for number, parameters in enumerate(stages.kept) for name, value in parameters.items()
        }
        WEIGHTS.mkdir(exist_ok=True)
        np.savez_compressed(WEIGHTS / f"{world}.npz", **{ABOUT: np.array(json.dumps(about)), **arrays})
        print(f"  {time.process_time() - began:.0f} s of processor time", flush=True)


if __name__ == "__main__":
    main()
