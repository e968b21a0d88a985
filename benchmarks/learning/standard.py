"""Measure the two programs of `docs/learners.md`, MaskablePPO and DQN without a mask, under several training seeds.

    export OMP_NUM_THREADS=1
    for seed in 0 1 2 3 4; do python benchmarks/learning/standard.py ppo --seeds $seed; done
    python benchmarks/learning/standard.py choose
    python benchmarks/learning/standard.py dqn --seeds 0,1,2,3,4
    python benchmarks/learning/standard.py rules

`ppo` measures sb3-contrib's MaskablePPO, default settings but a discount of 1, after 2, 5 and 10 minutes of processor time. The
clock starts before environments and model are made and stands still while the policy is measured. `choose` compares settings
of Stable-Baselines3's DQN on tasks of the train split alone; `dqn` measures the chosen ones on the test split. Every command
adds its figures to `--json`. The test is the same for all: 400 tasks at price=20, episode i with seed i.
"""

import argparse
import itertools
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
from sb3_contrib import MaskablePPO
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

from costgym.agents import make_agent
from costgym.experiments.baselines.online import DQN_ENVS, DQN_SETTINGS
from costgym.experiments.play.episodes import play

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.report import write_report

WORLD: dict[str, Any] = {"budget": {"price": 20}}
TRAINED_IN = {**WORLD, "split": "train-large"}
"""20,000 tasks made on demand. With the few hundred of the split `train`, MaskablePPO learns these tasks by heart."""
RESULTS = Path(__file__).parents[1] / "results" / "standard.json"
MINUTES = (2.0, 5.0, 10.0)
CHOICES: list[dict[str, Any]] = [
    {"gamma": gamma, "learning_rate": rate} for gamma, rate in itertools.product((0.9, 0.95), (5e-4, 1e-3))
]
LIBRARY = {"batch_size": 32, "learning_starts": 100, "target_update_interval": 10_000, "exploration_fraction": 0.1}
CHOICES.append({"gamma": 0.9, "learning_rate": 5e-4, **LIBRARY})
DQN_STEPS, CHOICE_EPISODES, EPISODES = 40_000, 200, 400
Choose = Callable[[Any, dict[str, Any]], int]


def passed(choose: Choose, split: str, episodes: int) -> float:
    """Share of a split's first tasks that are solved within the budget; episode i has seed i."""
    env = gym.make("costgym/Marketplace-v0", split=split, **WORLD)
    count = 0
    for number in range(episodes):
        (observation, info), over = env.reset(seed=number, options={"task": env.unwrapped.numbers[number]}), False  # type: ignore[attr-defined]
        while not over:
            observation, _, terminated, truncated, info = env.step(choose(observation, info))
            over = terminated or truncated
        count += info["is_success"]
    env.close()
    return count / episodes


class AtMinutes(BaseCallback):  # type: ignore[misc]
    """Measures a policy whenever so much processor time is spent, and ends training after the last."""

    def __init__(self, minutes: tuple[float, ...], began: float, measure: Callable[[], float]) -> None:
        super().__init__()
        self._left, self._began, self._measure = list(minutes), began, measure
        self.found: list[dict[str, float]] = []

    def _on_step(self) -> bool:
        now = time.process_time()
        if now - self._began >= 60.0 * self._left[0]:
            minutes, success = self._left.pop(0), self._measure()
            self.found.append({"minutes": minutes, "decisions": self.num_timesteps, "success": success})
            print(self.found[-1], flush=True)
            self._began += time.process_time() - now
        return bool(self._left)


def ppo(seed: int, minutes: tuple[float, ...]) -> list[dict[str, float]]:
    """Success after so many minutes of processor time."""
    began = time.process_time()
    model = MaskablePPO(
        "MultiInputPolicy",
        make_vec_env("costgym/Marketplace-v0", 8, seed, env_kwargs=TRAINED_IN),
        gamma=1.0,
        seed=seed,
        device="cpu",
    )

    def choose(observation: Any, info: dict[str, Any]) -> int:
        return int(model.predict(observation, action_masks=info["action_mask"], deterministic=True)[0])

    callback = AtMinutes(minutes, began, lambda: passed(choose, "test", EPISODES))
    model.learn(10**9, callback=callback)
    return callback.found


def dqn(seed: int, steps: int, split: str, episodes: int, **settings: Any) -> dict[str, float]:
    """Success after so many decisions: with the best action always, and with the exploration that training ends with."""
    began = time.process_time()
    envs = make_vec_env("costgym/Marketplace-v0", DQN_ENVS, seed, env_kwargs=WORLD)
    model = DQN("MultiInputPolicy", envs, seed=seed, device="cpu", **{**DQN_SETTINGS, **settings})
    model.learn(steps)
    spent = round(time.process_time() - began)

    def measure(deterministic: bool) -> float:
        return passed(lambda seen, _: int(model.predict(seen, deterministic=deterministic)[0]), split, episodes)

    return {"seed": seed, "processor_s": spent, "success": measure(True), "exploring": measure(False)}


def rules() -> dict[str, float]:
    """Success of agents that learn nothing, in the same episodes; `unmasked` draws from all actions."""
    chance = gym.spaces.Discrete(17, seed=0)
    rates = {"unmasked": passed(lambda *_: int(chance.sample()), "test", EPISODES)}
    for name in ("random", "greedy", "oracle-informed", "oracle"):
        env, agent = gym.make("costgym/Marketplace-v0", split="test", **WORLD), make_agent(name)
        numbers = env.unwrapped.numbers  # type: ignore[attr-defined]
        views = [play(env, agent, numbers[index], index) for index in range(EPISODES)]
        rates[name] = sum(view.grade.strict and view.exceeded is None for view in views if view.grade) / EPISODES
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("ppo", "choose", "dqn", "rules"))
    parser.add_argument("--seeds", default="0", help="of training, with commas between them")
    parser.add_argument("--minutes", default=",".join(f"{minute:g}" for minute in MINUTES), help="of ppo: when it is measured")
    parser.add_argument("--json", type=Path, default=RESULTS)
    args = parser.parse_args()
    torch.set_num_threads(1)
    report: dict[str, Any] = json.loads(args.json.read_text()) if args.json.exists() else {}
    if args.part == "rules":
        report["rules"] = rules()
    elif args.part == "choose":
        report["choose"] = []
        for settings in CHOICES:
            report["choose"].append({**settings, **dqn(0, DQN_STEPS, "train", CHOICE_EPISODES, **settings)})
            print(report["choose"][-1], flush=True)
    else:
        for seed in map(int, args.seeds.split(",")):
            if args.part == "ppo":
                outcome: Any = ppo(seed, tuple(map(float, args.minutes.split(","))))
            else:
                outcome = dqn(seed, DQN_STEPS, "test", EPISODES)
            report.setdefault(args.part, {})[str(seed)] = outcome
            print(seed, outcome, flush=True)
            write_report(report, args.json, ("torch", "stable-baselines3", "sb3-contrib", "gymnasium"))
    write_report(report, args.json, ("torch", "stable-baselines3", "sb3-contrib", "gymnasium"))


if __name__ == "__main__":
    main()
