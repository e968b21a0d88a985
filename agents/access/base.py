"""How an agent reaches its tools: which it is shown, which calls are turned down, what it is told beside.

Accesses stand in a list and each does its part; a strategy does not know which are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...simulators.status import Status
from ..models.base import Function, FunctionCall

if TYPE_CHECKING:
    from ..llm.session import CallResult, Session


class Refusal(NamedTuple):
    """A call turned down before it reaches the world: recorded there, never executed, never billed."""

    status: Status
    reason: str


class ToolAccess:
    """All tools, all the time. Others change what they need to.

    Attributes:
        suffix: its name in an agent's name, after "+".
        summarise: the final answer is written anew from all executed calls.
    """

    suffix: str = ""
    summarise: bool = False

    def reset(self, session: Session) -> None:
        """A new episode begins."""

    def functions(self, offered: Sequence[Function]) -> Sequence[Function]:
        """What the model is shown, of what the accesses before this one offer."""
        return offered

    def system(self) -> str:
        """What the model is told beside its instructions, now."""
        return ""

    def refuse(self, call: FunctionCall) -> Refusal | None:
        """Why a call must not be made, if it must not."""
        return None

    def handle(self, call: FunctionCall) -> str | None:
        """The result of a call that this access answers itself."""
        return None

    def admit(self, call: FunctionCall) -> None:
        """A call goes to the world; `result` follows."""

    def result(self, result: CallResult) -> None:
        """See what a call brought."""

    def exhausted(self) -> bool:
        """Nothing is left to call: the search stops."""
        return False


AllTools = ToolAccess
