"""The native vector view of the marketplace with priced constraints, and the callback of Stable-Baselines3 that sets prices.

The step limit is part of the task: an episode that exceeds it has failed, and no value is bootstrapped at its end, because
undiscounted bootstrapping can diverge.
"""

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.callbacks import BaseCallback

from costgym.agents.networks import not_finite
from costgym.envs.marketplace import Observation
from costgym.experiments.train.sb3.vec_env import NativeVecEnv
from costgym.simulators.ledger import RESOURCES
from costgym.simulators.status import LIMITS

if TYPE_CHECKING:
    from costgym.experiments.train.sb3.train import Sb3Run

MASK = "action_mask"
DQN_LINE_STEPS = 4096
"""Decisions between two lines of DQN's learning curve; PPO writes one line per update."""


class Finished(NamedTuple):
    """A finished episode."""

    reward: float  # return of the environment, without the constraints' penalty
    costs: dict[str, float]
    success: bool  # whether the task was solved within the budget
    steps: int  # number of decisions


class ToolVecEnv(NativeVecEnv):
    """A batch of marketplaces in their default form, with `multipliers` by resource: a penalty per unit on what steps cost.

    `finished` are the episodes that have ended since the list was last cleared; `show_mask` adds the action mask to
    observations, for algorithms without action masking. A tool that has refused a call at its rate limit or quota is masked for
    the rest of the episode: asking it again is free, in vain, and hardly changes what is observed, so that a greedy policy
    would do it for ever.
    """

    def __init__(self, num_envs: int, show_mask: bool = False, **settings: Any) -> None:
        super().__init__(num_envs, **settings)
        self._show_mask = show_mask
        self._shut = np.zeros((num_envs, int(self.action_space.n)), np.bool_)
        if show_mask:
            mask = gym.spaces.Box(0, 1, (int(self.action_space.n),), np.float32)
            parts = self.env.single_observation_space
            assert isinstance(parts, gym.spaces.Dict)
            self.observation_space: gym.Space[Any] = gym.spaces.Dict({**parts.spaces, MASK: mask})
        self.multipliers: dict[str, float] = {}
        self.finished: list[Finished] = []
        self._sums = {name: np.zeros(num_envs) for name in RESOURCES}

    def reset(self) -> Observation:
        """Start new episodes; after `seed(n)` they depend on n alone."""
        for sums in self._sums.values():
            sums[:] = 0.0
        self._shut[:] = False
        return self._seen(super().reset())

    def action_masks(self) -> NDArray[np.bool_]:
        """Return the mask of legal actions, without tools that have refused a call.  # (N, actions)"""
        return super().action_masks() & ~self._shut

    def step_wait(self) -> tuple[Observation, NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        observation, rewards, ended, infos = super().step_wait()
        refused = np.isin(self.statuses, LIMITS) & ~ended
        self._shut[refused, self._actions[refused]] = True
        self._shut[ended] = False
        for name, sums in self._sums.items():
            sums += self.costs[name]
        for index in np.flatnonzero(ended).tolist():
            last = infos[index]
            costs = {name: float(sums[index]) for name, sums in self._sums.items()}
            self.finished.append(Finished(last["episode"]["r"], costs, bool(last["is_success"]), last["episode"]["l"]))
            seen = last["terminal_observation"]
            if self._show_mask:
                seen = {**seen, MASK: np.ones(self.action_space.n, np.float32)}
            infos[index] = {"terminal_observation": seen, "TimeLimit.truncated": False}
        for sums in self._sums.values():
            sums[ended] = 0.0
        for name, multiplier in self.multipliers.items():
            rewards = (rewards - multiplier * self.costs[name]).astype(np.float32)
        return self._seen(observation), rewards, ended, infos

    def _seen(self, observation: Observation) -> Observation:
        if not self._show_mask:
            return observation
        return {**observation, MASK: self.action_masks().astype(np.float32)}


class SegmentCallback(BaseCallback):  # type: ignore[misc]
    """Writes the learning curve of a segment, whose last line is `metrics`, and ends the segment when the run is over, is
    `stopped` by its callback, or `broken`: the loss or a weight is not finite."""

    def __init__(self, training: "Sb3Run", env: ToolVecEnv) -> None:
        super().__init__()
        self.training, self.env = training, env
        self.metrics: dict[str, float] = {}
        self.stopped = self.broken = False
        self._noted = training.steps

    def _on_step(self) -> bool:
        if self.training.algorithm == "dqn" and self.num_timesteps - self._noted >= DQN_LINE_STEPS:
            self._note()
        return not (self.broken or self.training.out_of_time(self.num_timesteps))

    def _on_rollout_start(self) -> None:
        # SB3 updates after a rollout, so the logged values of an update are available when the next rollout starts
        if self.training.algorithm == "ppo" and self.num_timesteps > self._noted:
            self._note()

    def _on_training_end(self) -> None:
        if self.num_timesteps > self._noted:
            self._note()

    def _note(self) -> None:
        from costgym.experiments.train.sb3.train import network_of

        training = self.training
        finished, self.env.finished = self.env.finished, []
        logged = self.logger.name_to_value
        found: dict[str, float | None] = {
            "seconds": round(training.seconds, 2),
            "episodes": len(finished),
            "return": _mean([each.reward for each in finished]),
            "success": _mean([float(each.success) for each in finished]),
            "cost": _mean([each.costs[training.cost] for each in finished]),
            "decisions": _mean([float(each.steps) for each in finished]),
            "multiplier": training.multipliers[0] if training.multipliers else 0.0,
            "loss": _number(logged.get("train/loss")),
            "value_loss": _number(logged.get("train/value_loss")),
            "entropy": _number(logged.get("train/entropy_loss"), -1.0),
        }
        for constraint, multiplier in zip(training.constraints, training.multipliers, strict=True):
            ending = "" if constraint.resource == training.cost else f"_{constraint.resource}"
            found[f"cost{ending}"] = _mean([each.costs[constraint.resource] for each in finished])
            found[f"limit{ending}"], found[f"multiplier{ending}"] = constraint.limit, multiplier
        line = {name: value for name, value in found.items() if value is not None}
        self._noted = self.num_timesteps
        weights = dict(network_of(self.model).named_parameters())
        if not all(math.isfinite(value) for value in line.values()) or not_finite(weights):
            self.broken = True
            return
        self.metrics = line
        self.stopped |= training.report(self.num_timesteps, line)
        for name in line:
            if name in ("return", "success") or name.startswith(("cost", "multiplier")):
                self.logger.record(f"rollout/{name}", line[name])
        if training.algorithm == "dqn":
            self.logger.dump(self.num_timesteps)
        if finished:
            training.follow({name: sum(each.costs[name] for each in finished) / len(finished) for name in RESOURCES})
            self.env.multipliers = training.prices


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _number(value: Any, factor: float = 1.0) -> float | None:
    return None if value is None else factor * float(value)
