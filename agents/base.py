"""What every agent is: something that is told of a task, then asked for one action after another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import gymnasium as gym

NUMERIC = "costgym/Marketplace-v0"
TEXT = "costgym/MarketplaceChat-v0"
PLANS = "costgym/OpenCATP-v0"
PLAN_CALLS = "costgym/OpenCATPCalls-v0"
PLAN_CHAT = "costgym/OpenCATPChat-v0"
DECISION = "costgym/DecisionAware-v0"


class Agent(ABC):
    """A policy for one of the environments.

    An agent is reset with the environment after the environment was reset, may read what its view offers (for text views:
    `env.unwrapped.query`, `.documentation()`, `.quotes()`), and must draw all its chance from `seed`.

    Attributes:
        name: Its name on the leaderboard.
        model: The language model behind it, or "".
        env_id: The view it plays in.
    """

    name: str = ""
    model: str = ""
    env_id: str = NUMERIC

    @abstractmethod
    def reset(self, env: gym.Env[Any, Any], observation: Any, info: dict[str, Any], seed: int) -> None:
        """Begin an episode; `observation` and `info` are what `env.reset` returned."""

    @abstractmethod
    def act(self, observation: Any, info: dict[str, Any]) -> Any:
        """The next action."""

    def observe(self, observation: Any, reward: float, terminated: bool, truncated: bool, info: dict[str, Any]) -> None:
        """See what the action brought; nothing to do for an agent without memory."""
        del observation, reward, terminated, truncated, info
