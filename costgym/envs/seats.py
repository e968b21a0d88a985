"""Seats: all that an agent may know of an environment besides observations and `info`.

Every environment makes the seat of its view (`BaseEnv.seat`) and selects the part of each `info` that an agent may read
(`BaseEnv.visible_info`).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from costgym.simulators.decision.samples import Example
from costgym.simulators.decision.samples import examples as labelled
from costgym.simulators.status import LOOKS_OK, Status
from costgym.simulators.tools import Catalog, Same, Tool, ToolCard

if TYPE_CHECKING:
    from costgym.simulators.opencatp.scoring.evaluation import Evaluator
    from costgym.simulators.opencatp.tasks import OpenCATPTask
    from costgym.simulators.pricing.prompt_cache import ModelPrices

_LABELS_THAT_LOOK_OK = frozenset(status.label for status in LOOKS_OK)
_VERDICTS = _LABELS_THAT_LOOK_OK - {Status.OK.label}
_SENTENCE_END = re.compile(r"(?<=[a-z)\]0-9])\.\s")
_PRICE = 1
"""Column of the price in `observation["tools"]` (`marketplace.TOOL_FEATURES`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """The knowledge that every agent may have."""

    env_id: str  #: the environment that it plays in
    #: observation_space, action_space: of the environment
    observation_space: gym.Space[Any]
    action_space: gym.Space[Any]
    budget: Mapping[str, float] = field(default_factory=dict)  #: limit of each limited resource
    max_price: float = 1.0  #: the price that weighs as much as a full score


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSeat(Seat):
    """A seat in the text view. `info["quotes"]` has the present price of a call of each tool."""

    query: str  #: what the user asks
    tools: tuple[ToolCard, ...]  #: what is on offer
    token_pricing: "ModelPrices | None" = None  #: what the model's tokens cost; None where they are free
    #: categories of the catalogue that more tools can be searched in; () where all tools are on offer
    categories: tuple[str, ...] = ()
    examples: tuple[Example, ...] = ()  #: past queries with what served them, so many as the agent's `wants_examples` says
    more: tuple[ToolCard, ...] = ()  #: functions besides the tools, which cost nothing, such as the next query of a session

    def documentation(self) -> list[dict[str, Any]]:
        """The tools' function schemas, as chat models take them."""
        return [tool.documentation() for tool in self.tools]


@dataclass(frozen=True, slots=True, kw_only=True)
class NumericSeat(Seat):
    """A seat in the numeric view."""

    max_tools: int  #: rows of the observation's `tools`, which are the first actions
    wait_action: int | None  #: goes to the next end of a call; None where a step is a call and its answer
    finish_action: int  #: ends the episode

    def prices(self, tools: NDArray[np.float32]) -> NDArray[np.float64]:
        """Prices in the scenario's currency, from the rows of an observation: (..., tools, 16) to (..., tools)."""
        return prices_of(tools, self.max_price)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionSeat(Seat):
    """A seat where one decides whether a query needs a tool. `info["documents"]` has the tools that a search brought."""

    query: str  #: what the user asks
    none_action: int  #: says that no tool fits
    examples: tuple[Example, ...] = ()  #: past decisions, so many as the agent's `wants_examples` says


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSeat(Seat):
    """A seat where one plans for OpenCATP."""

    task: "OpenCATPTask"  #: what is asked for
    level: int  #: size level of the image, 0 to 3
    evaluator: "Evaluator"  #: prices of tools and plans, and past experience: scores of plans on the samples of the train split


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSeat(Seat):
    """The seat of a privileged agent: a bound that reads the world."""

    env: Any  #: the environment under its wrappers


def without_verdicts(info: dict[str, Any]) -> dict[str, Any]:
    """`info` of the text view without what only the world knows: whether content that came without an error is right."""
    statuses = info["statuses"]
    if not statuses or _VERDICTS.isdisjoint(statuses.split(",")):
        return info
    results = [
        {**result, "status": Status.OK.label} if result["status"] in _LABELS_THAT_LOOK_OK else result
        for result in info["results"]
    ]
    labels = [result["status"] for result in results]
    return {**info, "results": results, "status": int(Status[labels[-1].upper()]), "statuses": ",".join(labels)}


def cards_of(catalog: Catalog, tools: Sequence[Tool]) -> list[ToolCard]:
    """Cards of some tools, each made once per catalog."""
    cards = _cards(Same(catalog))
    return [cards.get(tool.name) or cards.setdefault(tool.name, ToolCard.of(tool)) for tool in tools]


@lru_cache(maxsize=65_536)
def _first_sentence(text: str) -> str:
    return _SENTENCE_END.split(" ".join(text.split()), maxsplit=1)[0].rstrip(".") + "."


def shorten(card: ToolCard, price: float, currency: str) -> ToolCard:
    """A card for small contexts: the first sentence with the price, and the required arguments with types and choices alone."""
    properties: Mapping[str, Any] = card.parameters.get("properties", {})
    required = [name for name in card.parameters.get("required", ()) if name in properties]
    shortened = {name: {key: properties[name][key] for key in ("type", "enum") if key in properties[name]} for name in required}
    return replace(
        card,
        description=f"{_first_sentence(card.description)} {price:g} {currency}.",
        parameters={"type": "object", "properties": shortened, "required": required},
    )


@lru_cache(maxsize=8)
def _cards(catalog: Same) -> dict[str, ToolCard]:
    return {}


@lru_cache(maxsize=4)
def past_decisions(world: Same, count: int) -> tuple[Example, ...]:
    """So many labelled decisions of a world's first split, the same objects in every episode."""
    return tuple(labelled(world.value, world.value.tasks.splits[0], count))


def prices_of(tools: NDArray[np.float32], max_price: float) -> NDArray[np.float64]:
    """Prices in the currency of `max_price`, from the rows of an observation: (..., tools, 16) to (..., tools)."""
    return tools[..., _PRICE].astype(np.float64) * (max_price / 10.0)
