"""Types that session, strategies and tool accesses share: outcomes, results and turns."""

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from costgym.agents.models.base import FunctionCall, Message
from costgym.simulators.status import Status


class Outcome(NamedTuple):
    """The result of an action: the observation and `info` of the environment's step."""

    observation: str
    info: dict[str, Any]


T = TypeVar("T")
Play = Generator[str, Outcome, T]  # a part of an episode: yields actions, is sent their outcomes, returns its own result


class CallResult(NamedTuple):
    """A call and what came of it."""

    call: FunctionCall  # the call as the model wrote it
    text: str
    status: Status  # how the call ended
    executed: bool  # it reached the tool and was billed


class SearchResult(NamedTuple):
    """The result of a search: an answer, or None where the agent gives up."""

    answer: str | None

    @property
    def gave_up(self) -> bool:
        return self.answer is None


@dataclass(slots=True)
class Turn:
    """A reply of the model, played out."""

    messages: list[Message]  # the reply and the results of its calls, to be added to the history
    results: list[CallResult] = field(default_factory=list)
    ending: SearchResult | None = None
    nodes: int = 1  # nodes that ToolBench's trees count for it: one for a thought, two for a call

    @property
    def registered(self) -> bool:
        """Return whether the tool access answered all calls, so that the world saw none of them."""
        return {(result.executed, result.status) for result in self.results} == {(False, Status.OK)}
