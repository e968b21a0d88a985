"""The native vector view of the marketplace and of sessions with priced constraints.

The step limit is part of the task: an episode that exceeds it has failed, and no value is bootstrapped at its end, because
undiscounted bootstrapping can diverge.
"""

from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from costgym.agents.base import NUMERIC, SESSION, view_of
from costgym.envs.marketplace import Observation
from costgym.experiments.train.sb3.vec_env import NativeVecEnv
from costgym.simulators.ledger import RESOURCES
from costgym.simulators.status import LIMITS

MASK, LEFT = "action_mask", "left"  # what observations hold besides the environment's own arrays
MOST_LEFT = 1e6  # stands for no limit
SESSION_SCALE = 2.0  # factor on the mean reward of a query in a session, whose value is some ten credits


class Finished(NamedTuple):
    """A finished episode."""

    reward: float  # return of the environment, without the constraints' penalty
    costs: dict[str, float]
    success: bool  # whether the task was solved within the budget
    steps: int  # number of decisions


class ToolVecEnv(NativeVecEnv):
    """A batch of marketplaces in their default form, or of sessions, with `multipliers` by resource: a penalty per unit on what
    steps cost.

    `finished` are the episodes that have ended since the list was last cleared; `show_mask` adds the action mask to
    observations, for algorithms without action masking. In sessions, rewards and penalties are scaled to about 1 for a query,
    and divided by one more than the sum of the multipliers. Sessions of version 0 have `left` added to observations: what is
    left of the money and of the time, which `info` tells. A tool that has refused a call at its rate limit or quota is masked
    for the rest of the episode, or of the query in a session: asking it again is free, in vain, and hardly changes what is
    observed, so that a greedy policy would do it for ever.
    """

    def __init__(self, num_envs: int, show_mask: bool = False, env_id: str = NUMERIC, **settings: Any) -> None:
        super().__init__(num_envs, env_id=env_id, **settings)
        self._show_mask, self._sessions = show_mask, view_of(env_id) == SESSION
        self._shows_left = env_id == SESSION
        self._scale = SESSION_SCALE / self.env.scalar.rules.queries if self._sessions else 1.0
        self._query = np.zeros(num_envs, np.int64)
        self._shut = np.zeros((num_envs, int(self.action_space.n)), np.bool_)
        parts = self.env.single_observation_space
        assert isinstance(parts, gym.spaces.Dict)
        mask = {MASK: gym.spaces.Box(0, 1, (int(self.action_space.n),), np.float32)} if show_mask else {}
        left = {LEFT: gym.spaces.Box(-MOST_LEFT, MOST_LEFT, (2,), np.float32)} if self._shows_left else {}
        self.observation_space: gym.Space[Any] = gym.spaces.Dict({**parts.spaces, **mask, **left})
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
        if self._sessions:
            ended_query, self._query = self.info["query"] != self._query, self.info["query"]
            self._shut[ended_query] = False
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
        # a session without a budget may cost a hundred times its limit: without the division, the loss of the value function
        # would leave nothing of the policy's gradient under the common limit of its norm
        rewards *= self._scale / (1.0 + sum(self.multipliers.values()) if self._sessions else 1.0)
        return self._seen(observation), rewards, ended, infos

    def _seen(self, observation: Observation) -> Observation:
        shown = {MASK: self.action_masks().astype(np.float32)} if self._show_mask else {}
        if self._shows_left:
            left = [self.info[f"budget_remaining_{name}"] for name in ("price", "seconds")]
            shown[LEFT] = np.clip(np.stack(left, -1), -MOST_LEFT, MOST_LEFT).astype(np.float32)
        return {**observation, **shown}
