"""The agent's interface: an agent is told of a task, then asked for one action after another."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from costgym.agents.world_side import ModelHandle

NUMERIC = "costgym/Marketplace-v0"
TEXT = "costgym/MarketplaceChat-v0"
PLANS = "costgym/OpenCATP-v0"
PLAN_CALLS = "costgym/OpenCATPCalls-v0"
PLAN_CHAT = "costgym/OpenCATPChat-v0"
DECISION = "costgym/DecisionAware-v0"
SESSION = "costgym/MarketplaceSession-v0"
SESSION_1 = "costgym/MarketplaceSession-v1"
_SESSION, _LEVELS = SESSION.removesuffix("-v0"), ("easy", "medium", "hard", "extreme")  # which have ids of their own
SESSIONS_1 = (SESSION_1, *(f"{_SESSION}{level.title()}-v1" for level in _LEVELS))
SESSION_CHAT = "costgym/MarketplaceSessionChat-v0"


def view_of(env_id: str) -> str:
    """The first version of an environment's id, which agents are listed by: an agent plays every version of its view."""
    if env_id.startswith(_SESSION) and env_id.removeprefix(_SESSION).partition("-")[0].lower() in _LEVELS:
        return SESSION
    name, dash, version = env_id.rpartition("-v")
    return f"{name}-v0" if dash and version.isdigit() and env_id.startswith("costgym/") else env_id


def in_view(agent: "Agent", env_id: str) -> bool:
    """Whether an agent plays in an environment, or in another version of it."""
    return view_of(agent.env_id) == view_of(env_id)


class Agent(ABC):
    """A policy for one of the environments.

    An agent is given a seat when the environment was reset: all that it may know besides observations and `info` (see
    `agents.seat`). It must draw all its chance from `seed`.

    Attributes:
        name: Its name on the leaderboard; that of the class unless it says otherwise.
        model: The language model behind it, or "".
        env_id: The view it plays in.
        privileged: It reads the world and takes a `WorldSeat`: a bound, without a rank.
        handles: Models on the world's side that it asks; see `agents.world_side`.
        brokered: It plays in a process of its own, and what is counted of its replies was counted on this side.
        replies: Counts of a real model's replies in this episode, by the names in `agents.models.base.REPLIES`.
        wants_examples: Past decisions that its seat shall hold, where one decides whether a query needs a tool.
    """

    name: str = ""
    model: str = ""
    env_id: str = NUMERIC
    privileged: bool = False
    handles: "tuple[ModelHandle, ...]" = ()
    brokered: bool = False
    wants_examples: int = 0
    replies: Mapping[str, int] = MappingProxyType({})

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        cls.name = cls.name or cls.__name__

    @abstractmethod
    def reset(self, seat: Any, observation: Any, info: dict[str, Any], seed: int) -> None:
        """Begin an episode.

        Args:
            seat: What it may know: the `Seat` of its view.
            observation, info: What the environment's reset returned.
            seed: Its own; the world's cannot be told from it.
        """

    @abstractmethod
    def act(self, observation: Any, info: dict[str, Any]) -> Any:
        """Return the next action."""

    def observe(self, observation: Any, reward: float, terminated: bool, truncated: bool, info: dict[str, Any]) -> None:
        """See what the action brought; nothing to do for an agent without memory."""
        del observation, reward, terminated, truncated, info
