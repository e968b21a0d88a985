"""The seat of an agent: all that it may know besides observations and `info`.

A seat holds spaces, the query, the documentation of what is on offer, the budget and past experience. It never holds the
environment, the world or their seed. Bounds such as the oracle are privileged: they get the environment, have no rank and
cannot be handed in.

The agent's own seed is a hash of the episode's and of the task, so that the same run gives the same bytes. It hides nothing
that can be guessed: with a public seed, such as a leaderboard's, trying small numbers finds seed and task in milliseconds, and
with them everything that is public. In an epoch the episode's seed is 60 secret bits, which nobody can try.

In one process this is a matter of construction, not of security: Python hides nothing from code that looks for it. An agent in
a process of its own is handed the same seats over a pipe, and there is no world there to look for; files of the user are.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import gymnasium as gym

from costgym.envs.base import BaseEnv, base_env
from costgym.envs.seats import DecisionSeat, NumericSeat, PlanSeat, Seat, TextSeat, WorldSeat
from costgym.simulators.errors import ConfigError

if TYPE_CHECKING:
    from costgym.agents.base import Agent

__all__ = ["DecisionSeat", "NumericSeat", "PlanSeat", "Seat", "TextSeat", "WorldSeat", "begin", "expect_seat", "seat_of"]

OneSeat = TypeVar("OneSeat", bound=Seat)
Tell = Callable[[dict[str, Any]], dict[str, Any]]
"""Makes of an environment's `info` what the agent is told."""


def begin(agent: "Agent", env: gym.Env[Any, Any], observation: Any, info: dict[str, Any], seed: int) -> Tell:
    """Begin an episode for an agent: it takes its seat, and its models on the world's side are told what the task is.

    Args:
        agent: for the environment's view.
        env: an environment of costgym, reset.
        observation, info: what the reset returned.
        seed: the agent's own.

    Returns:
        What each later `info` has to go through before the agent reads it.
    """
    world = base_env(env)
    for handle in agent.handles:
        handle.begin(world, seed)
    agent.reset(seat_of(world, agent), observation, world.visible_info(info), seed)
    return world.visible_info


def seat_of(world: BaseEnv[Any, Any], agent: "Agent") -> Seat:
    """Return the seat of an agent in the episode that has begun.

    Raises:
        ConfigError: no agent can be seated in this environment.
    """
    env_id = world.spec.id if world.spec is not None else agent.env_id
    if agent.privileged:
        return WorldSeat(**world.seat_parts(env_id), env=world)
    return world.seat(env_id, agent.wants_examples)


def expect_seat(seat: Seat, kind: type[OneSeat], agent: "Agent") -> OneSeat:
    """Return a seat of the kind that an agent plays in; raises ConfigError for one of another environment."""
    if not isinstance(seat, kind):
        raise ConfigError(f"agent {agent.name}", f"expected a seat in {agent.env_id}, got one in {seat.env_id}")
    return seat
