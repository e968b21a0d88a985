"""Impose a scenario's faults, prices and budget on Python functions and on tools of agent frameworks."""

import asyncio
import functools
import inspect
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any, TypeVar, overload

from costgym.experiments.serve.proxy.session import Real, Reply, Session, Settings
from costgym.experiments.serve.proxy.world import tool_of
from costgym.simulators.errors import ConfigError
from costgym.simulators.status import SILENT, Status
from costgym.simulators.tools import Tool

Wrapped = TypeVar("Wrapped")


class Fault(Exception):
    """A call of a wrapped function that failed or was refused: `status` as `server_error`, `retry_after_s` in real seconds."""

    def __init__(self, message: str, status: str, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.status, self.retry_after_s = status, retry_after_s


class TimeoutFault(Fault, TimeoutError):
    """A call that timed out under the scenario."""


class ConnectionFault(Fault, ConnectionError):
    """A call that found no connection under the scenario."""


_FAULTS: dict[Status, type[Fault]] = {Status.TIMEOUT: TimeoutFault, Status.CONNECTION_ERROR: ConnectionFault}


class Chaos:
    """A run of calls of some Python tools, which share its faults, its clock and its budget.

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
        self.session = settings.start([known for known, _ in handles], "python")
        self.success: bool | None = None
        self.tools: list[Any] = [wrapped(self.session) for _, wrapped in handles]

    def close(self) -> None:
        """End the run's log; later calls are not noted."""
        self.session.close("closed", self.success)

    def __enter__(self) -> "Chaos":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


@overload
def wrap(tools: list[Any], **options: Any) -> list[Any]: ...
@overload
def wrap(tools: Wrapped, **options: Any) -> Wrapped: ...
def wrap(tools: Any, **options: Any) -> Any:
    """Impose a scenario's faults, prices and budget on a tool, or on a list of tools that share them.

    A tool is a Python function (plain or `async`), a `FunctionTool` of the OpenAI Agents SDK, or a tool of LangChain and
    LangGraph. The result replaces it. A call of a function that fails raises a `Fault`; the tools of frameworks return the
    error as text, which the model reads. An empty reply of a function is None.

    Args:
        tools: One tool, or a list of them.
        options: The fields of `Settings`, such as `scenario` (`storm` by default), `seed`, `budget="price=20"` and `log`.

    Raises:
        ConfigError: A tool is of another kind, or an option is unknown or out of range.
        CostGymError: The scenario cannot be read.
    """
    if isinstance(tools, list):
        return Chaos(tools, **options).tools
    return Chaos([tools], **options).tools[0]


# -- the tools of each kind -------------------------------------------------------------------------------------------------


def _handle(tool: Any) -> tuple[Tool, Callable[[Session], Any]]:
    """A tool as the world knows it, and what wraps it for a session."""
    if hasattr(tool, "on_invoke_tool") and hasattr(tool, "params_json_schema"):
        known = tool_of(tool.name, tool.description or "", tool.params_json_schema, "openai-agents")
        return known, lambda session: _agents_tool(tool, session)
    if hasattr(tool, "ainvoke") and hasattr(tool, "_run"):
        known = tool_of(tool.name, tool.description or "", dict(tool.args), "langchain")
        return known, lambda session: _langchain_tool(tool, session)
    if callable(tool) and hasattr(tool, "__name__"):
        known = tool_of(tool.__name__, inspect.getdoc(tool) or "", provider="python")
        return known, lambda session: _function(tool, tool.__name__, session, _raised)
    expected = "a function, a FunctionTool of the OpenAI Agents SDK or a tool of LangChain"
    raise ConfigError("tools", f"expected {expected}, got {type(tool).__name__}")


class _WrappedCall:
    """A call of a wrapped tool, from its beginning to what the caller gets."""

    def __init__(self, session: Session, name: str, arguments: dict[str, Any], fault: Callable[[Reply], Any]) -> None:
        self.session, self._fault, self.ticket = session, fault, session.begin(name, arguments)
        self.value: Any = None
        self._error: Exception | None = None
        self._real: Real | None = None

    @contextmanager
    def made(self) -> Iterator[None]:
        """Time the tool's own work, and keep its error for `returned`."""
        begun_s = time.monotonic()
        try:
            yield
        except Exception as error:
            self._error = error
        self._real = _real(self.value, self._error, time.monotonic() - begun_s)

    @property
    def hold_s(self) -> float:
        """Real seconds for which the reply is still to be held up."""
        return self.session.left_to_hold(self.ticket)

    def returned(self) -> Any:
        """What the caller gets: the tool's own value or error unless a fault came between."""
        reply = self.session.end(self.ticket, self._real)
        if reply.text is None:
            if self._error is not None:
                raise self._error
            return self.value
        if reply.failed:
            return self._fault(reply)
        if self._fault is _text_of or (reply.status in SILENT and isinstance(self.value, str)):
            return reply.text
        if reply.status is Status.EMPTY:
            return None
        try:
            return json.loads(reply.text)
        except ValueError:
            return reply.text  # half an object is text


def _function(function: Callable[..., Any], name: str, session: Session, fault: Callable[[Reply], Any]) -> Callable[..., Any]:
    signature = inspect.signature(function)

    def arguments(args: Any, kwargs: Any) -> dict[str, Any]:
        return dict(signature.bind(*args, **kwargs).arguments)  # a wrong call is the caller's error, and raises as ever

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def called_async(*args: Any, **kwargs: Any) -> Any:
            call = _WrappedCall(session, name, arguments(args, kwargs), fault)
            return await _make_async(call, lambda: function(*args, **kwargs))

        return called_async

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        call = _WrappedCall(session, name, arguments(args, kwargs), fault)
        if call.ticket.reaches:
            with call.made():
                call.value = function(*args, **kwargs)
        time.sleep(call.hold_s)
        return call.returned()

    return called


async def _make_async(call: _WrappedCall, make: Callable[[], Any]) -> Any:
    try:
        if call.ticket.reaches:
            with call.made():
                call.value = await make()
        await asyncio.sleep(call.hold_s)
    except asyncio.CancelledError:
        call.session.abandon(call.ticket)
        raise
    return call.returned()


def _agents_tool(tool: Any, session: Session) -> Any:
    """A copy of a `FunctionTool` of the OpenAI Agents SDK."""
    invoke = tool.on_invoke_tool

    async def invoked(context: Any, text: str) -> Any:
        try:
            arguments = json.loads(text) if text else {}
        except ValueError:
            arguments = {}
        arguments = arguments if isinstance(arguments, dict) else {}
        return await _make_async(_WrappedCall(session, tool.name, arguments, _text_of), lambda: invoke(context, text))

    wrapped = copy(tool)
    wrapped.on_invoke_tool = invoked
    return wrapped


def _langchain_tool(tool: Any, session: Session) -> Any:
    """A copy of a tool of LangChain, whose inner functions are wrapped."""
    changed = {
        field: _function(getattr(tool, field), tool.name, session, _text_of)
        for field in ("func", "coroutine")
        if getattr(tool, field, None) is not None
    }
    if not changed:
        raise ConfigError("tools", f"{tool.name}: expected a tool made from a function, got {type(tool).__name__}")
    return tool.model_copy(update=changed)


# -- what comes back --------------------------------------------------------------------------------------------------------


def _real(value: Any, error: Exception | None, seconds: float) -> Real:
    if error is None:
        return Real(value if isinstance(value, str) else json.dumps(value, default=str), Status.OK, seconds)
    known = ((TimeoutError, Status.TIMEOUT), (ConnectionError, Status.CONNECTION_ERROR))
    status = next((status for kind, status in known if isinstance(error, kind)), Status.SERVER_ERROR)
    return Real(f"{type(error).__name__}: {error}", status, seconds)


def _raised(reply: Reply) -> Any:
    raise _FAULTS.get(reply.status, Fault)(reply.text or "", reply.status.label, reply.retry_after_s)


def _text_of(reply: Reply) -> Any:
    return reply.text
