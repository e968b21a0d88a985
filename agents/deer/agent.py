"""A decider at play in `costgym/DecisionAware-v0`."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from ...envs.decision import ANSWER, FIRST_CALL, SEARCH
from ...simulators.world import World
from ..base import DECISION, Agent
from .deciders import Decider, RuleDecider
from .examples import examples

FITTED_ON = 2000
"""Training examples that the rule-based decider of the leaderboard learns its thresholds from."""


class DeerAgent(Agent):
    """Decides by text: answers or searches, then calls a candidate or says that none fits.

    Args:
        decider: Makes the decisions.
    """

    env_id = DECISION

    def __init__(self, decider: Decider) -> None:
        self.decider = decider
        self.name, self.model = decider.name, decider.model
        self._env: Any = None

    def reset(self, env: gym.Env[Any, Any], observation: Any, info: dict[str, Any], seed: int) -> None:
        self._env = env.unwrapped
        self.decider.begin(self._env.task, seed)

    def act(self, observation: Any, info: dict[str, Any]) -> int:
        env = self._env
        if not env.searched:
            return SEARCH if self.decider.search(env.query) else ANSWER
        chosen = self.decider.choose(env.query, env.candidates)
        action = env.none_action if chosen is None else FIRST_CALL + chosen
        # a call that the budget or a ban forbids leaves one thing to say
        return int(action if info["action_mask"][action] else env.none_action)


class RuleAgent(DeerAgent):
    """The rule-based decider, fitted on the training split of whichever world it meets."""

    def __init__(self) -> None:
        self._world: World | None = None
        self.name, self.model = RuleDecider.name, ""

    def reset(self, env: gym.Env[Any, Any], observation: Any, info: dict[str, Any], seed: int) -> None:
        world: World = env.unwrapped.world  # type: ignore[attr-defined]
        if world is not self._world:
            splits = world.tasks.splits
            self._world, self.decider = world, RuleDecider.fit(examples(world, splits[0], FITTED_ON))
        super().reset(env, observation, info, seed)
