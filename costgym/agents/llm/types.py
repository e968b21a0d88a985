"""Types that session, strategies and tool accesses share: outcomes, turns, and the two interfaces they meet at."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from costgym.agents.models.base import Function, FunctionCall, Message
from costgym.simulators.status import Status

if TYPE_CHECKING:
    from costgym.agents.llm.session import LlmSession


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


class Strategy(Protocol):
    """Makes a search of a model's replies."""

    @property
    def name(self) -> str: ...

    @property
    def text_is_answer(self) -> bool:
        """Whether a reply without a call is the final answer."""
        ...

    def play(self, session: "LlmSession") -> Play[SearchResult]: ...


class Refusal(NamedTuple):
    """A call turned down before it reaches the world: it is recorded there, but never executed and never billed."""

    status: Status
    reason: str


class ToolAccess:
    """Decides which tools a model is shown, which calls are turned down, and what else the model is told.

    An agent has a list of accesses, and each does its part; a strategy does not know which there are. This one shows all
    tools at all times; others override what they change.

    Attributes:
        suffix: Its part of an agent's name, after "+".
        summarise: After the search, the final answer is written from all executed calls.
    """

    suffix: str = ""
    summarise: bool = False

    def reset(self, session: "LlmSession") -> None:
        """Begin a new episode."""

    def functions(self, offered: Sequence[Function]) -> Sequence[Function]:
        """Return the functions that the model is shown, out of those that the accesses before this one offer."""
        return offered

    def system(self) -> str:
        """Return what the model is told now, beside its instructions."""
        return ""

    def refuse(self, call: FunctionCall) -> Refusal | None:
        """Return the reason why a call must not be made; None if it may."""
        return None

    def handle(self, call: FunctionCall) -> str | None:
        """Return the result of a call that this access answers itself."""
        return None

    def admit(self, call: FunctionCall) -> None:
        """Take note that a call goes to the world; `result` follows."""

    def result(self, result: CallResult) -> None:
        """See what a call brought."""

    def exhausted(self) -> bool:
        """Return whether no call is left, so that the search stops."""
        return False
