"""The native vector view of the marketplace with priced constraints, for training with Stable-Baselines3.

The step limit is part of the task: an episode that exceeds it has failed, and no value is bootstrapped at its end, because
undiscounted bootstrapping can diverge.
"""

from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from ....envs.marketplace import Observation
from ....simulators.ledger import RESOURCES
from ....simulators.status import LIMITS
from .vec_env import NativeVecEnv

MASK = "action_mask"


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
