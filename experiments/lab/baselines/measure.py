"""Measure agents and learnt policies on the same test episodes."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym

from ....agents.base import Agent
from ....envs.base import base_env
from ....envs.registration import class_of, make
from ....simulators.errors import ConfigError, UnknownName
from ....simulators.marketplace.tasks import LARGE_SPLIT
from ...play.rollout import play

Choose = Callable[[Any, dict[str, Any]], int]  # takes an observation and its info, and returns an action
Figures = dict[str, float]


def world_of(env_id: str, level: str) -> dict[str, Any]:
    """Return the arguments of `gymnasium.make` for an environment at a level."""
    return {"scenario": level} if level and "scenario" in class_of(env_id).WORLD_ARGUMENTS else {}


def open_env(env_id: str, level: str, split: str) -> gym.Env[Any, Any]:
    """Return an environment at a level, in its default form."""
    return make(env_id, split=split, disable_env_checker=True, **world_of(env_id, level))


def learning_split(env_id: str, level: str, wanted: str | None = None) -> str:
    """Choose the split whose tasks are learnt from: the wanted one, else `train-large` where the world makes tasks on demand,
    else `train`. Raises ConfigError if the environment has no such split at this level, or it is measured with."""
    name = wanted or LARGE_SPLIT
    try:
        if name == "test":
            raise ConfigError("--train-split", "its tasks measure what was learnt")
        open_env(env_id, level, name).close()
    except (ConfigError, UnknownName) as error:
        if wanted is None:
            return "train"
        raise ConfigError("--train-split", f"expected a split of {env_id} other than test, got {wanted!r}") from error
    return name


class LearntPolicy(Agent):
    """A policy that a method has learnt, as an agent."""

    def __init__(self, env_id: str, name: str, choose: Choose) -> None:
        self.env_id, self.name, self._choose = env_id, name, choose

    def reset(self, seat: Any, observation: Any, info: dict[str, Any], seed: int) -> None:
        """Nothing to do: the policy reads observations alone."""

    def act(self, observation: Any, info: dict[str, Any]) -> int:
        return self._choose(observation, info)


def measure(env: gym.Env[Any, Any], agent: Agent, episodes: int, seed: int | None = None) -> Figures:
    """Play the first test episodes, the same for every agent; returns the means of `success` (passed within the budget),
    `return` (Quality of Plan), `cost` (price) and `calls`. By default the agent's seed is derived from the episode."""
    world = base_env(env)
    sums = {"success": 0.0, "return": 0.0, "cost": 0.0, "calls": 0.0}
    for index in range(episodes):
        number, world_seed = world.instance(index, 0)[:2]
        view = play(env, agent, number, world_seed, None if seed is None else seed * episodes + index)
        assert view.grade is not None
        sums["success"] += view.grade.strict and view.exceeded is None
        sums["return"] += world.quality()
        sums["cost"] += view.ledger.price
        sums["calls"] += view.ledger.calls
    return {name: total / episodes for name, total in sums.items()}
