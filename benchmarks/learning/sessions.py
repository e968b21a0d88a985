"""Train learners on sessions under equal information and equal processor time, and compare them with the tuned rule.

    python benchmarks/learning/sessions.py learn stock --minutes 4 --seeds 5 --shares stock_v1.json
    python benchmarks/learning/sessions.py learn stock --env costgym/MarketplaceSession-v0 --seeds 5 --shares stock_v0.json
    python benchmarks/learning/sessions.py compare stock_v1.json stock_v0.json --json sessions_learners.json

Learners: `stock` is sb3-contrib's `MaskablePPO` with its `MultiInputPolicy` and default settings, but for a discount of 0.995,
rollouts of 512 steps in 8 environments and rewards divided by 20; `recurrent` is its `RecurrentPPO`, which knows no mask, so an
action that the mask forbids is refused and costs a step.

Sixty sessions of `valid` are played after every fifth of the time, which does not count. The policy that earned most there
plays `test` and, of version 1, `shifted` once, by its likeliest actions. Minutes are of processor time.
"""

import argparse
import copy
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

import costgym
from costgym.agents import make_agent
from costgym.agents.base import SESSION
from costgym.experiments.play.episodes import play

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.papers.presets import over_seeds
from benchmarks.report import write_report

SESSION_1 = "costgym/MarketplaceSession-v1"
SCALE = 1 / 20  # of rewards
VALID, CHECKS = 60, 5  # sessions of a check, and checks in a training
REFERENCES = ("paced", "tuned")
Shares = NDArray[np.float64]
Act = Callable[[dict[str, Any], NDArray[Any], NDArray[np.bool_]], Any]
"""Observations (S, ...), masks (S, actions) and which sessions begin (S,), to actions (S,)."""


def shares(act: Act, env_id: str, split: str, sessions: int) -> Shares:
    """Play the first sessions of a split side by side under seed 0; return the share of the value of each, (S,)."""
    envs: Any = costgym.make_vec(env_id, sessions, split=split, autoreset_mode=AutoresetMode.NEXT_STEP)
    observation: Any = None
    for number, task in enumerate(envs.scalar.numbers[:sessions]):
        options = {"reset_mask": np.arange(sessions) == number, "task": task}
        observation, _ = envs.reset(seed=[0] * sessions, options=options)
    found, begins = np.full(sessions, np.nan), np.ones(sessions, np.bool_)
    while np.isnan(found).any():
        observation, _, ended, cut, info = envs.step(act(observation, envs.action_masks(), begins))
        begins = ended | cut
        first = begins & np.isnan(found)
        found[first] = info["value_share"][first]
    return found


class Lesson:
    """The processor time of one training, without that of its checks on `valid`, and the best policy so far."""

    def __init__(self, env_id: str, minutes: float, actor: Callable[[Any], Act]) -> None:
        self.env_id, self.minutes, self.actor = env_id, minutes, actor
        self.curve: list[dict[str, float]] = []
        self.best: Any = None
        self._began = 0.0

    def goes_on(self, steps: int, policy: Any) -> bool:
        """Note that a policy has learnt from so many steps; return whether time is left."""
        spent = (time.process_time() - self._began) / 60.0
        if spent >= self.minutes * (len(self.curve) + 1) / CHECKS:
            earned = float(shares(self.actor(policy), self.env_id, "valid", VALID).mean())
            if earned > max((point["valid"] for point in self.curve), default=-1.0):
                self.best = copy.deepcopy(policy)
            self.curve.append({"minutes": round(spent, 2), "steps": steps, "valid": round(earned, 4)})
            print(self.curve[-1], flush=True)
            self._began = time.process_time() - 60.0 * spent
        return len(self.curve) < CHECKS

    def begin(self, envs: Any) -> None:
        """Start the clock, once the environments' kernels are compiled."""
        envs.reset()
        envs.step(np.zeros(envs.num_envs, np.int64))
        self._began = time.process_time()


def with_sb3(make_model: Callable[[Any], Any], seed: int, lesson: Lesson) -> None:
    """Let a model of Stable-Baselines3 learn in eight compiled environments until the lesson ends."""
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env

    def make_env() -> gym.Env[Any, Any]:
        env = costgym.make(lesson.env_id, split="train", disable_env_checker=True, compiled=True)
        return gym.wrappers.TransformReward(env, lambda reward: reward * SCALE)

    class Checked(BaseCallback):
        def _on_step(self) -> bool:
            return lesson.goes_on(self.num_timesteps, self.model.policy)

    env = make_vec_env(make_env, 8, seed)
    lesson.begin(env)
    make_model(env).learn(10**9, callback=Checked())


def stock(env_id: str, seed: int, minutes: float) -> Lesson:
    from sb3_contrib import MaskablePPO

    def actor(policy: Any) -> Act:
        return lambda seen, masks, begins: policy.predict(seen, action_masks=masks, deterministic=True)[0]

    lesson = Lesson(env_id, minutes, actor)
    of_ours = {"n_steps": 512, "batch_size": 256, "gamma": 0.995}
    with_sb3(lambda env: MaskablePPO("MultiInputPolicy", env, seed=seed, device="cpu", **of_ours), seed, lesson)
    return lesson


def recurrent(env_id: str, seed: int, minutes: float) -> Lesson:
    from sb3_contrib import RecurrentPPO

    def actor(policy: Any) -> Act:
        state: Any = None

        def act(seen: dict[str, Any], masks: NDArray[Any], begins: NDArray[np.bool_]) -> Any:
            nonlocal state
            actions, state = policy.predict(seen, state, begins, deterministic=True)
            return actions

        return act

    lesson = Lesson(env_id, minutes, actor)
    of_ours = {"n_steps": 512, "batch_size": 256, "gamma": 0.995}
    with_sb3(lambda env: RecurrentPPO("MultiInputLstmPolicy", env, seed=seed, device="cpu", **of_ours), seed, lesson)
    return lesson


LEARNERS = {"stock": stock, "recurrent": recurrent}


def splits_of(env_id: str) -> tuple[str, ...]:
    return ("test",) if env_id == SESSION else ("test", "shifted")


def learn(given: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    runs = []
    for seed in range(given.seed, given.seed + given.seeds):
        lesson = LEARNERS[given.what](given.env, seed, given.minutes)
        actor = lesson.actor(lesson.best)
        found = {split: shares(actor, given.env, split, given.sessions).round(5) for split in splits_of(given.env)}
        print(given.what, seed, {split: round(float(of.mean()), 4) for split, of in found.items()}, flush=True)
        runs.append({"learner": given.what, "env": given.env, "minutes": given.minutes, "seed": seed, "curve": lesson.curve})
        runs[-1] |= {split: of.tolist() for split, of in found.items()}
    given.shares.write_text(json.dumps(runs), encoding="utf-8")


def interval(values: Shares) -> dict[str, Any]:
    """Mean and 95 % interval over sessions."""
    half = 1.96 * float(values.std(ddof=1)) / len(values) ** 0.5
    return {"mean": round(float(values.mean()), 4), "ci95": [round(float(values.mean()) + sign * half, 4) for sign in (-1, 1)]}


def references(env_id: str, split: str, sessions: int) -> dict[str, Shares]:
    """The shares of the rules on the first sessions of a split."""
    env: Any = costgym.make(env_id, split=split, disable_env_checker=True)
    numbers = env.unwrapped.numbers[:sessions]
    agents = {name: make_agent(name, SESSION) for name in REFERENCES}
    return {name: np.array([play(env, agent, n, 0).value_share for n in numbers]) for name, agent in agents.items()}


def compare(given: argparse.Namespace) -> None:
    """Gather the runs of each learner: its mean over seeds on each split, and what it is above the rules, in pairs."""
    runs: list[dict[str, Any]] = [run for file in given.files for run in json.loads(Path(file).read_text(encoding="utf-8"))]
    rules: dict[tuple[str, str], dict[str, Shares]] = {}
    rows = []
    for learner, env_id in dict.fromkeys((run["learner"], run["env"]) for run in runs):
        own: Sequence[dict[str, Any]] = [run for run in runs if (run["learner"], run["env"]) == (learner, env_id)]
        row: dict[str, Any] = {"learner": learner, "env": env_id, "seeds": len(own)}
        for split in splits_of(env_id):
            by_seed = np.array([run[split] for run in own])  # (seeds, S)
            if (env_id, split) not in rules:
                rules[env_id, split] = references(env_id, split, by_seed.shape[1])
            mean = by_seed.mean(0)
            above = {f"above_{name}": interval(mean - of) for name, of in rules[env_id, split].items()}
            row[split] = interval(mean) | {"over_seeds": over_seeds(by_seed.mean(1).tolist()), **above}
        print(json.dumps(row), flush=True)
        rows.append(row | {"curves": [run["curve"] for run in own], "minutes": own[0]["minutes"]})
    write_report({"rows": rows}, given.json, ("numpy", "gymnasium", "stable_baselines3", "sb3_contrib", "torch"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("learn", help="train a learner, and play it")
    one.add_argument("what", choices=LEARNERS)
    one.add_argument("--env", default=SESSION_1)
    one.add_argument("--minutes", type=float, default=4.0)
    one.add_argument("--seed", type=int, default=0, help="the first")
    one.add_argument("--seeds", type=int, default=1)
    one.add_argument("--sessions", type=int, default=300, help="that are played at the end")
    one.add_argument("--shares", type=Path, required=True, help="the file for the share of the value in each session")
    one.set_defaults(run=learn)
    several = commands.add_parser("compare", help="compare what learners earned with the rules")
    several.add_argument("files", nargs="+")
    several.add_argument("--json", type=Path)
    several.set_defaults(run=compare)
    given = parser.parse_args()
    given.run(given)


if __name__ == "__main__":
    main()
