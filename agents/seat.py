"""The seat of an agent: all that it may know besides observations and `info`.

A seat holds spaces, the query, the documentation of what is on offer, the budget and past experience. It never holds the
environment, the world or their seed; the agent's own seed tells nothing of the world's. Bounds such as the oracle are
privileged: they get the environment, have no rank and cannot be handed in.

In one process this is a matter of construction, not of security: Python hides nothing from code that looks for it. An agent in
a process of its own is handed the same seats over a pipe, and there is no world there to look for; files of the user are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from ..envs.base import BaseEnv, base_env
from ..envs.chat import MarketplaceChatEnv
from ..envs.decision import DecisionAwareEnv
from ..envs.marketplace import MarketplaceEnv, prices_of
from ..envs.opencatp.base import OpenCATPBase
from ..simulators.decision.examples import Example, examples
from ..simulators.errors import ConfigError
from ..simulators.opencatp.scoring.evaluation import Evaluator
from ..simulators.opencatp.scoring.known import Same, known_evaluator
from ..simulators.opencatp.tasks import OpenCATPTask
from ..simulators.pricing import TokenPricing
from ..simulators.status import LOOKS_OK, Status
from ..simulators.tools import Tool, ToolCard

if TYPE_CHECKING:
    from .base import Agent

_LABELS_THAT_LOOK_OK = frozenset(status.label for status in LOOKS_OK)
_OK = Status.OK


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """What every agent may know.

    Attributes:
        env_id: the environment that it plays in.
        observation_space, action_space: of the environment.
        budget: limit of each limited resource.
        max_price: the price that weighs as much as a full score.
    """

    env_id: str
    observation_space: gym.Space[Any]
    action_space: gym.Space[Any]
    budget: Mapping[str, float] = field(default_factory=dict)
    max_price: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSeat(Seat):
    """A seat in the text view. `info["quotes"]` has the present price of a call of each tool.

    Attributes:
        query: what the user asks.
        tools: what is on offer.
        token_pricing: what the model's tokens cost; None where they are free.
    """

    query: str
    tools: tuple[ToolCard, ...]
    token_pricing: TokenPricing | None = None

    def documentation(self) -> list[dict[str, Any]]:
        """The tools' function schemas, as chat models take them."""
        return [tool.documentation() for tool in self.tools]


@dataclass(frozen=True, slots=True, kw_only=True)
class NumericSeat(Seat):
    """A seat in the numeric view.

    Attributes:
        max_tools: rows of the observation's `tools`, which are the first actions.
        wait_action: goes to the next end of a call; None where a step is a call and its answer.
        finish_action: ends the episode.
    """

    max_tools: int
    wait_action: int | None
    finish_action: int

    def prices(self, tools: NDArray[np.float32]) -> NDArray[np.float64]:
        """Prices in the scenario's currency, from the rows of an observation: (..., tools, 16) to (..., tools)."""
        return prices_of(tools, self.max_price)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionSeat(Seat):
    """A seat where one decides whether a query needs a tool. `info["documents"]` has the tools that a search brought.

    Attributes:
        query: what the user asks.
        none_action: says that no tool fits.
        examples: past decisions, so many as the agent's `wants_examples` says.
    """

    query: str
    none_action: int
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSeat(Seat):
    """A seat where one plans for OpenCATP.

    Attributes:
        task: what is asked for.
        level: size level of the image, 0 to 3.
        evaluator: prices of tools and plans, and past experience: scores of plans on the samples of the train split.
    """

    task: OpenCATPTask
    level: int
    evaluator: Evaluator


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSeat(Seat):
    """The seat of a privileged agent: a bound that reads the world.

    Attributes:
        env: the environment under its wrappers.
    """

    env: Any


Tell = Callable[[dict[str, Any]], dict[str, Any]]
"""Makes of an environment's `info` what the agent is told."""


def begin(agent: Agent, env: gym.Env[Any, Any], observation: Any, info: dict[str, Any], seed: int) -> Tell:
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
    for port in agent.ports:
        port.begin(world, seed)
    tell = teller(world)
    agent.reset(seat_of(world, agent), observation, tell(info), seed)
    return tell


def teller(world: BaseEnv[Any, Any]) -> Tell:
    """What an agent is told of each `info` of an environment."""
    if isinstance(world, MarketplaceChatEnv):
        return lambda info: {**_without_verdicts(info), "quotes": world.quotes()}
    if isinstance(world, DecisionAwareEnv):
        return lambda info: {**info, "documents": _cards_of(world, world.candidates)}
    return lambda info: info


def seat_of(world: BaseEnv[Any, Any], agent: Agent) -> Seat:
    """The seat of an agent in the episode that has begun.

    Raises:
        ConfigError: no agent can be seated in this environment.
    """
    about: dict[str, Any] = {
        "env_id": world.spec.id if world.spec is not None else agent.env_id,
        "observation_space": world.observation_space,
        "action_space": world.action_space,
        "budget": world.budget.as_dict(),
    }
    if agent.privileged:
        return WorldSeat(**about, env=world)
    if isinstance(world, MarketplaceEnv):
        about |= {"wait_action": world.wait_action, "finish_action": world.finish_action}
        return NumericSeat(**about, max_price=world.world.max_price, max_tools=world.max_tools)
    if isinstance(world, MarketplaceChatEnv):
        return TextSeat(
            **about,
            max_price=world.world.max_price,
            query=world.query,
            tools=tuple(_cards_of(world, world.candidates)),
            token_pricing=world.world.tokens,
        )
    if isinstance(world, DecisionAwareEnv):
        found = _examples(world, agent.wants_examples) if agent.wants_examples else ()
        about["max_price"] = world.world.max_price
        return DecisionSeat(**about, query=world.query, none_action=world.none_action, examples=found)
    if isinstance(world, OpenCATPBase):
        known = known_evaluator(world.evaluator)
        return PlanSeat(**about, max_price=world.max_price, task=world.task, level=world.size_level, evaluator=known)
    raise ConfigError("env", f"no agent has a seat in {type(world).__name__}")


def _without_verdicts(info: dict[str, Any]) -> dict[str, Any]:
    """`info` of the text view without what only the world knows: whether content that came without an error is right."""
    statuses = info["statuses"]
    if not statuses or all(label not in _LABELS_THAT_LOOK_OK or label == "ok" for label in statuses.split(",")):
        return info
    results = [
        {**result, "status": _OK.label} if result["status"] in _LABELS_THAT_LOOK_OK else result for result in info["results"]
    ]
    labels = [result["status"] for result in results]
    return {**info, "results": results, "status": int(Status[labels[-1].upper()]), "statuses": ",".join(labels)}


def _cards_of(world: Any, tools: list[Tool]) -> list[ToolCard]:
    """Cards of some tools, each made once per world."""
    cards = _cards(Same(world.world.catalog))
    found = []
    for tool in tools:
        card = cards.get(tool.name)
        if card is None:
            card = cards[tool.name] = ToolCard.of(tool)
        found.append(card)
    return found


@lru_cache(maxsize=8)
def _cards(catalog: Same) -> dict[str, ToolCard]:
    return {}


def _examples(world: DecisionAwareEnv, count: int) -> tuple[Example, ...]:
    return _past_decisions(Same(world.world), count)


@lru_cache(maxsize=4)
def _past_decisions(world: Same, count: int) -> tuple[Example, ...]:
    return tuple(examples(world.value, world.value.tasks.splits[0], count))
