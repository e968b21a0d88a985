"""Agents from what a caller has at hand: an agent, its name, or a function of observation and info."""

from collections.abc import Callable
from inspect import signature
from typing import Any

import gymnasium as gym

from ..simulators.errors import ConfigError
from .base import Agent
from .registry import make_agent

Policy = Callable[[Any, dict[str, Any]], Any]  # takes an observation and its info, and returns an action


class FunctionAgent(Agent):
    """A function ``(observation, info) -> action``, which should depend on its arguments alone, as an agent."""

    def __init__(self, function: Policy, env_id: str) -> None:
        self.name = getattr(function, "__name__", type(function).__name__)
        self.env_id, self._function = env_id, function

    def reset(self, seat: Any, observation: Any, info: dict[str, Any], seed: int) -> None:
        """Nothing to do: a function has no memory."""

    def act(self, observation: Any, info: dict[str, Any]) -> Any:
        return self._function(observation, info)


def _takes_two(function: object) -> bool:
    """Return whether something can be called with an observation and its info."""
    if not callable(function):
        return False
    try:
        signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # some functions of C have no signature
        return True
    return True


def as_agent(agent: Agent | str | Policy, env: gym.Env[Any, Any]) -> Agent:
    """The agent that an `Agent`, a name for `make_agent` or a function ``(observation, info) -> action`` stands for."""
    if not isinstance(env, gym.Env):
        raise ConfigError("env", f"expected an environment of costgym.make, got {env!r:.60}")
    env_id = "" if env.spec is None else env.spec.id
    if isinstance(agent, str):
        return make_agent(agent, env_id or None)
    if not isinstance(agent, Agent):
        if isinstance(agent, type) or not _takes_two(agent):
            raise ConfigError("agent", f"expected an agent, its name or a function (observation, info), got {agent!r:.60}")
        return FunctionAgent(agent, env_id)
    if env_id.startswith("costgym/") and agent.env_id != env_id:
        raise ConfigError("agent", f"{agent.name or type(agent).__name__} plays in {agent.env_id}, not in {env_id}")
    return agent
