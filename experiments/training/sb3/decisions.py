"""The native vector view of the marketplace with one step per tool call, for training with Stable-Baselines3.

With a price budget, parallel calls bring no advantage, so an action here is a call and the wait for its answer. This halves the
number of steps. The rewards of both are summed, so the undiscounted return is unchanged. The step limit is part of the task: an
episode that exceeds it has failed, and no value is bootstrapped at its end, because undiscounted bootstrapping can diverge.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from ....agents.sb3 import needed
from ....envs.marketplace import Observation
from .vec_env import NativeVecEnv

MASK = "action_mask"


class Finished(NamedTuple):
    """A finished episode.

    Attributes:
        reward: return of the environment, without the constraint's penalty.
        cost: cost of the episode, in units of the constrained resource.
        success: whether the task was solved within the budget.
        steps: number of decisions.
    """

    reward: float
    cost: float
    success: bool
    steps: int


class ToolVecEnv(NativeVecEnv):
    """A batch of N marketplaces in which a step is a call and its answer.

    Args:
        num_envs: number of environments N.
        needed_only: mask calls that cannot return a missing fact.
        show_mask: add the action mask to the observation, for algorithms without action masking.
        settings: settings of `MarketplaceEnv`.

    Attributes:
        multiplier: penalty per unit of `info["cost"]`, subtracted from the reward.
        finished: the episodes that have ended since the list was last cleared.
    """

    def __init__(self, num_envs: int, needed_only: bool = True, show_mask: bool = False, **settings: Any) -> None:
        super().__init__(num_envs, **settings)
        self._needed_only, self._show_mask = needed_only, show_mask
        if show_mask:
            mask = gym.spaces.Box(0, 1, (int(self.action_space.n),), np.float32)
            parts = self.env.single_observation_space
            assert isinstance(parts, gym.spaces.Dict)
            self.observation_space: gym.Space[Any] = gym.spaces.Dict({**parts.spaces, MASK: mask})
        self._wait = self.env.scalar.wait_action
        self.multiplier = 0.0
        self.finished: list[Finished] = []
        self._begin()

    def _begin(self) -> None:
        count = self.num_envs
        self._rewards, self._costs, self._steps = np.zeros(count), np.zeros(count), np.zeros(count, np.int64)

    def reset(self) -> Observation:
        """Start new episodes; after `seed(n)` they depend on n alone."""
        observation = super().reset()
        self._begin()
        return self._seen(observation)

    def step_wait(self) -> tuple[Observation, NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        total, cost = np.zeros(self.num_envs), np.zeros(self.num_envs)
        ended = np.zeros(self.num_envs, np.bool_)
        success = np.zeros(self.num_envs, np.bool_)
        last: dict[int, Any] = {}
        actions: NDArray[Any] = self._actions
        for _ in range(2):  # the call, then the wait; without a running call, as after an episode's end, the wait has no effect
            observation, rewards, terminated, truncated, info = self.env.step(actions)
            done = terminated | truncated
            total += np.where(ended, 0.0, rewards)
            if done.any():
                final = info["final_info"]
                cost += np.where(ended, 0.0, np.where(done, final["cost"], info["cost"]))
                success |= done & final["is_success"]
                for place in np.flatnonzero(done).tolist():
                    last[place] = info["final_obs"][place]
                ended |= done
            else:
                cost += np.where(ended, 0.0, info["cost"])
            actions = np.full(self.num_envs, self._wait)
        self._rewards += total
        self._costs += cost
        self._steps += 1
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for index in np.flatnonzero(ended).tolist():
            seen = last[index]
            if self._show_mask:
                seen = {**seen, MASK: np.ones(self.action_space.n, np.float32)}
            infos[index] = {"terminal_observation": seen, "TimeLimit.truncated": False}
            self.finished.append(
                Finished(float(self._rewards[index]), float(self._costs[index]), bool(success[index]), int(self._steps[index]))
            )
        self._rewards[ended], self._costs[ended], self._steps[ended] = 0.0, 0.0, 0
        paid = (total - self.multiplier * cost).astype(np.float32)
        return self._seen(observation), paid, ended, infos

    def _seen(self, observation: Observation) -> Observation:
        self._mask = self.env.action_masks()
        if self._needed_only:
            self._mask[:, : self._wait] &= needed(observation["tools"], observation["needs"])
        if not self._show_mask:
            return observation
        return {**observation, MASK: self._mask.astype(np.float32)}

    def action_masks(self) -> NDArray[np.bool_]:
        return self._mask
