"""Python functions, and tools of agent frameworks, under the world's luck."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import time
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from ....simulators.errors import ConfigError
from ....simulators.status import SILENT, Status
from ....simulators.tools import Tool
from .session import Real, Reply, Session, Settings, Ticket
from .world import tool_of

Wrapped = TypeVar("Wrapped")


class Fault(Exception):
    """A call of a wrapped function that the world let fail or refused.

    Attributes:
        status: The failure's name, such as `server_error` or `rate_limited`.
        retry_after_s: Real seconds to wait after a rate limit's refusal; 0 elsewhere.
    """

    def __init__(self, message: str, status: str, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.status, self.retry_after_s = status, retry_after_s


class TimeoutFault(Fault, TimeoutError):
    """The world let a call time out."""


class ConnectionFault(Fault, ConnectionError):
    """The world let a call find nobody."""


_FAULTS: dict[Status, type[Fault]] = {Status.TIMEOUT: TimeoutFault, Status.CONNECTION_ERROR: ConnectionFault}


class Chaos:
    """A run in which some Python tools are called; they share its luck, its clock and its budget.

    Make one with `wrap`, which describes the arguments, or directly, to end it with a verdict:

    >>> def double(number: int) -> int:
    ...     return 2 * number
    >>> with Chaos([double], scenario="marketplace", seed=1, time_scale=0) as chaos:
    ...     (double,) = chaos.tools
    ...     total = sum(double(number) for number in range(4))
    ...     chaos.success = total == 12
    >>> chaos.session.episode.ledger.calls
    4

    Attributes:
        tools: The wrapped tools, in the order given.
        session: The run.
        success: The verdict that is written to the log at the end; None for none.
    """

    def __init__(self, tools: Sequence[Any], **options: Any) -> None:
        handles = [_handle(tool) for tool in tools]
        settings = Settings(**{"scenario": "storm", **options})
        self.session = settings.start([handle.tool for handle in handles], "python")
        self.success: bool | None = None
        self.tools: list[Any] = [handle.wrap(self.session) for handle in handles]

    def close(self) -> None:
        """End the run's log; later calls are not noted."""
        self.session.close("closed", self.success)

    def __enter__(self) -> Chaos:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


@overload
def wrap(tools: list[Any], **options: Any) -> list[Any]: ...
@overload
def wrap(tools: Wrapped, **options: Any) -> Wrapped: ...
def wrap(tools: Any, **options: Any) -> Any:
    """Impose a scenario's luck, prices and budget on a tool, or on a list of tools that share them.

    A tool is a Python function (plain or `async`), a `FunctionTool` of the OpenAI Agents SDK, or a tool of LangChain and
    LangGraph. What comes back is used in its place. A function that the world lets fail raises a `Fault`; the tools of
    frameworks return the error as text, which the model reads. An empty reply of a function is None.

    Args:
        tools: One tool, or a list of them.
        options: The fields of `Settings`, such as `scenario` (`storm` by default), `seed`, `budget="price=20"` and `log`.

    Raises:
        ConfigError: Something is no tool, or an option is out of range.
        CostGymError: The scenario cannot be read.
    """
    if isinstance(tools, list):
        return Chaos(tools, **options).tools
    return Chaos([tools], **options).tools[0]


# -- the tools of each kind -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Handle:
    """A tool as the world knows it, and what wraps it for a session."""

    tool: Tool
    wrap: Callable[[Session], Any]


def _handle(tool: Any) -> _Handle:
    if hasattr(tool, "on_invoke_tool") and hasattr(tool, "params_json_schema"):
        return _Handle(
            tool_of(tool.name, tool.description or "", tool.params_json_schema, "openai-agents"),
            lambda session: _agents_tool(tool, session),
        )
    if hasattr(tool, "ainvoke") and hasattr(tool, "_run"):
        return _Handle(
            tool_of(tool.name, tool.description or "", dict(tool.args), "langchain"), lambda s: _langchain_tool(tool, s)
        )
    if callable(tool) and hasattr(tool, "__name__"):
        named = tool_of(tool.__name__, inspect.getdoc(tool) or "", provider="python")
        return _Handle(named, lambda session: _function(tool, tool.__name__, session, _raised))
    expected = "a function, a FunctionTool of the OpenAI Agents SDK or a tool of LangChain"
    raise ConfigError("tools", f"expected {expected}, got {type(tool).__name__}")


def _function(function: Callable[..., Any], name: str, session: Session, fault: Callable[[Reply], Any]) -> Callable[..., Any]:
    signature = inspect.signature(function)

    def arguments(args: Any, kwargs: Any) -> dict[str, Any]:
        return dict(signature.bind(*args, **kwargs).arguments)  # a wrong call is the caller's error, and raises as ever

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def called_async(*args: Any, **kwargs: Any) -> Any:
            return await _call_async(session, name, arguments(args, kwargs), lambda: function(*args, **kwargs), fault)

        return called_async

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        ticket, value, error, real = session.begin(name, arguments(args, kwargs)), None, None, None
        if ticket.reaches:
            begun_s = time.monotonic()
            try:
                value = function(*args, **kwargs)
            except Exception as problem:
                error = problem
            real = _real(value, error, time.monotonic() - begun_s)
        time.sleep(session.left_to_hold(ticket))
        return _returned(session, ticket, session.end(ticket, real), value, error, fault)

    return called


async def _call_async(
    session: Session, name: str, arguments: dict[str, Any], make: Callable[[], Any], fault: Callable[[Reply], Any]
) -> Any:
    ticket, value, error, real = session.begin(name, arguments), None, None, None
    try:
        if ticket.reaches:
            begun_s = time.monotonic()
            try:
                value = await make()
            except Exception as problem:
                error = problem
            real = _real(value, error, time.monotonic() - begun_s)
        await asyncio.sleep(session.left_to_hold(ticket))
    except asyncio.CancelledError:
        session.abandon(ticket)
        raise
    return _returned(session, ticket, session.end(ticket, real), value, error, fault)


def _agents_tool(tool: Any, session: Session) -> Any:
    """A copy of a `FunctionTool` of the OpenAI Agents SDK."""
    invoke = tool.on_invoke_tool

    async def invoked(context: Any, given: str) -> Any:
        try:
            arguments = json.loads(given) if given else {}
        except ValueError:
            arguments = {}
        arguments = arguments if isinstance(arguments, dict) else {}
        return await _call_async(session, tool.name, arguments, lambda: invoke(context, given), _told)

    wrapped = copy(tool)
    wrapped.on_invoke_tool = invoked
    return wrapped


def _langchain_tool(tool: Any, session: Session) -> Any:
    """A copy of a tool of LangChain, whose inner functions are wrapped."""
    changed = {
        field: _function(getattr(tool, field), tool.name, session, _told)
        for field in ("func", "coroutine")
        if getattr(tool, field, None) is not None
    }
    if not changed:
        raise ConfigError("tools", f"{tool.name}: expected a tool made from a function, got {type(tool).__name__}")
    return tool.model_copy(update=changed)


# -- what comes back --------------------------------------------------------------------------------------------------------


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _real(value: Any, error: Exception | None, seconds: float) -> Real:
    if error is None:
        return Real(_text(value), Status.OK, seconds)
    known = ((TimeoutError, Status.TIMEOUT), (ConnectionError, Status.CONNECTION_ERROR))
    status = next((status for kind, status in known if isinstance(error, kind)), Status.SERVER_ERROR)
    return Real(f"{type(error).__name__}: {error}", status, seconds)


def _returned(
    session: Session, ticket: Ticket, reply: Reply, value: Any, error: Exception | None, fault: Callable[[Reply], Any]
) -> Any:
    if reply.text is None:  # nothing came between the caller and the function
        if error is not None:
            raise error
        return value
    if reply.failed:
        return fault(reply)
    if fault is _told or (reply.status in SILENT and isinstance(value, str)):
        return reply.text
    if reply.status is Status.EMPTY:
        return None
    try:
        return json.loads(reply.text)
    except ValueError:
        return reply.text  # half an object is text


def _raised(reply: Reply) -> Any:
    raise _FAULTS.get(reply.status, Fault)(reply.text or "", reply.status.label, reply.retry_after_s)


def _told(reply: Reply) -> Any:
    return reply.text
