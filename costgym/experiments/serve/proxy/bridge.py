"""Pass messages between one MCP client and one MCP server, and impose a scenario's faults, prices and budget on tool calls.

It works on the protocol's messages, so everything else (resources, prompts, sampling, progress) goes through unchanged.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import anyio
import mcp_types as types
from anyio.abc import TaskGroup
from mcp.shared.message import ClientMessageMetadata, ServerMessageMetadata, SessionMessage

from costgym.experiments.play.call_logs.statuses import failure_in_words
from costgym.experiments.serve.proxy.session import Real, Reply, Session, Settings, Ticket
from costgym.experiments.serve.proxy.world import tool_of
from costgym.experiments.serve.wire import seen
from costgym.simulators.errors import CostGymError
from costgym.simulators.status import SILENT, Status

VERSION_HEADER = "mcp-protocol-version"
GONE = "the server has ended or cannot be reached; start the proxy again"
LONGEST_LIST = 1000  # pages


Answer = types.JSONRPCResponse | types.JSONRPCError


class Bridge:
    """One client's connection to one server, by streams of either side; it is one run. A call of the server counts as timed out
    after `timeout_s` real seconds. With `tells`, each reply has a last line with the call's price and the rest of the budget.
    With `over_http`, one side speaks HTTP, where the revision of the protocol stands in headers."""

    def __init__(
        self,
        client: tuple[Any, Any],
        server: tuple[Any, Any],
        settings: Settings,
        *,
        timeout_s: float = 60.0,
        tells: bool = False,
        over_http: bool = False,
    ) -> None:
        (self._from_client, self._to_client), (self._from_server, self._to_server) = client, server
        self._settings, self._imposes, self._timeout_s, self._tells = settings, settings.imposes, timeout_s, tells
        self._over_http = over_http
        self._session: Session | None = None
        self._starting = anyio.Lock()
        self._pending: dict[types.RequestId, asyncio.Future[Answer]] = {}  # requests of the proxy's own
        self._passing: dict[types.RequestId, str] = {}  # methods of requests that the server answers to the client
        self._calls: dict[types.RequestId, anyio.CancelScope] = {}
        self._tokens: dict[Any, types.RequestId] = {}
        self._server_name, self._version = "", ""
        self._gone = False
        self._problem: str | None = None
        self._prices: dict[str, float] | None = None  # as the client was told them last
        self._requests_sent = 0

    async def run(self) -> None:
        """Pass messages on until the client leaves. A server that ends is reported to the client, call by call."""
        reason = "the client closed the connection"
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._read_server)
                with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                    await self._read_client(group)
                # the client has left; reading from the server would go on for ever
                group.cancel_scope.cancel()
        except BaseException as error:
            reason = f"the proxy stopped: {type(error).__name__}"
            raise
        finally:
            if self._session is not None:
                self._session.close(f"{reason}; the server had ended" if self._gone else reason)

    # -- from the client ---------------------------------------------------------------------------------------------------

    async def _read_client(self, group: TaskGroup) -> None:
        async for item in self._from_client:
            if isinstance(item, Exception):
                continue  # not a message of the protocol
            message = item.message
            if isinstance(message, types.JSONRPCRequest):
                if message.method == "tools/call":
                    # side by side, so that a slow call holds up neither other calls nor its own cancellation
                    group.start_soon(self._call, message)
                elif self._gone:
                    await self._fail_request(message, types.CONNECTION_CLOSED, GONE)
                elif message.method == "tools/list":
                    group.start_soon(self._list, message)
                elif message.method == "server/discover" and self._over_http:
                    await self._fail_request(message, types.METHOD_NOT_FOUND, "the proxy needs a session; initialize one")
                else:
                    await self._pass_on(message)
            else:
                if isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
                    scope = self._calls.get((message.params or {}).get("requestId", ""))
                    if scope is not None:
                        scope.cancel()
                if not self._gone:
                    await self._ask(message)

    async def _list(self, message: types.JSONRPCRequest) -> None:
        await self._begin(message.params)
        if self._problem is not None:
            await self._fail_request(message, types.INTERNAL_ERROR, self._problem)
            return
        await self._pass_on(message)

    async def _pass_on(self, message: types.JSONRPCRequest) -> None:
        """Pass a request on to the server, and later its answer to the client."""
        self._passing[message.id] = message.method
        await self._ask(message)

    async def _fail_request(self, message: types.JSONRPCRequest, code: int, words: str) -> None:
        await self._answer(_error(message.id, code, words))

    async def _begin(self, params: Mapping[str, Any] | None) -> Session | None:
        """The session, begun with the server's tools; None if the server does not list them."""
        # two first calls at once begin one run
        async with self._starting:
            if self._session is None and not self._gone:
                listed: list[dict[str, Any]] = []
                list_params: dict[str, Any] = {key: value for key, value in (params or {}).items() if key == "_meta"}
                for _ in range(LONGEST_LIST):
                    self._requests_sent += 1
                    request = types.JSONRPCRequest(
                        jsonrpc="2.0", id=f"costgym-{self._requests_sent}", method="tools/list", params=list_params or None
                    )
                    answer = await self._wait_for(request, self._timeout_s)
                    if not isinstance(answer, types.JSONRPCResponse):
                        return None
                    listed += [tool for tool in answer.result.get("tools") or () if isinstance(tool, dict)]
                    if not answer.result.get("nextCursor"):
                        break
                    list_params["cursor"] = answer.result["nextCursor"]
                server = self._server_name or "real"
                tools = [
                    tool_of(str(tool["name"]), str(tool.get("description") or ""), tool.get("inputSchema"), server)
                    for tool in listed
                    if tool.get("name")
                ]
                try:
                    if tools and self._problem is None:
                        self._session = self._settings.start(tools, self._server_name)
                except CostGymError as error:
                    self._fail(error)
            return self._session

    async def _call(self, message: types.JSONRPCRequest) -> None:
        params = message.params or {}
        session = await self._begin(params)
        if self._problem is not None:
            await self._fail_request(message, types.INTERNAL_ERROR, self._problem)
            return
        name, arguments = params.get("name"), params.get("arguments") or {}
        if session is None or not isinstance(name, str) or not isinstance(arguments, dict):
            if self._gone:
                await self._answer(_result(message.id, _content(_words(Status.CONNECTION_ERROR, GONE), failed=True)))
            else:
                await self._pass_on(message)
            return
        token = (params.get("_meta") or {}).get("progressToken")
        if token is not None:
            self._tokens[token] = message.id
        ticket = session.begin(name, arguments)
        scope = self._calls[message.id] = anyio.CancelScope()
        ended = False
        try:
            with scope:
                answer, real = None, None
                if ticket.reaches:
                    begun_s = time.monotonic()
                    answer = await self._wait_for(message, self._timeout_s)
                    real = _real(answer, time.monotonic() - begun_s, self._gone)
                if (hold_s := session.left_to_hold(ticket)) > 0:
                    await anyio.sleep(hold_s)
                ended = True
                reply = session.end(ticket, real)
                if self._prices not in (None, session.prices):
                    # the descriptions name the price, so the client has to read them again; once, until it does
                    self._prices = None
                    await self._send(SessionMessage(_TOOLS_CHANGED, ServerMessageMetadata(related_request_id=message.id)))
                await self._answer(self._reply(message.id, session, ticket, reply, answer, real))
        except CostGymError as error:
            self._fail(error)
            await self._fail_request(message, types.INTERNAL_ERROR, str(error))
        finally:
            self._calls.pop(message.id, None)
            self._tokens.pop(token, None)
            if not ended:
                session.abandon(ticket)

    def _fail(self, error: CostGymError) -> None:
        """Refuse all further calls: without a session or a log, they would go unrecorded."""
        self._problem = f"the proxy cannot go on: {error}"
        sys.stderr.write(f"error: {error}\n")

    # -- what the client gets ----------------------------------------------------------------------------------------------

    def _reply(
        self, number: types.RequestId, session: Session, ticket: Ticket, reply: Reply, answer: Any, real: Real | None
    ) -> Answer:
        figures: dict[str, Any] = {}
        if self._imposes:
            left = {f"costgym/left_{name}": value for name, value in reply.left.items()}
            figures = {"costgym/price": reply.price, "costgym/status": seen(reply.status).label, **left}
        if reply.status in SILENT and isinstance(answer, types.JSONRPCResponse):
            result = _spoilt(answer.result, lambda text: session.spoilt(ticket, text), reply.status)
        elif reply.text is not None:
            result = _content(reply.text, reply.failed)
        elif isinstance(answer, types.JSONRPCResponse):
            result = dict(answer.result)
        elif isinstance(answer, types.JSONRPCError) and answer.error.code not in _LOST:
            return types.JSONRPCError(jsonrpc="2.0", id=number, error=answer.error)
        else:
            result = _content(_words(reply.status, real.text if real is not None else ""), failed=True)
        if figures:
            result["_meta"] = {**(result.get("_meta") or {}), **figures}
            if self._tells:
                words = [f"price {reply.price:.6g}", *(f"left {name} {value:.6g}" for name, value in reply.left.items())]
                line = {"type": "text", "text": f"[{'; '.join(words)}]"}
                result["content"] = [*(result.get("content") or ()), line]
        return _result(number, result)

    def _with_prices(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """A list of tools with their prices, and without the schemas of replies, which faults may break."""
        session = self._session
        if session is None or not self._imposes:
            return dict(result)
        prices = self._prices = session.prices
        tools = []
        for tool in result.get("tools") or ():
            priced = {key: value for key, value in tool.items() if key != "outputSchema"}
            price = prices.get(str(tool.get("name")))
            if price is not None:
                priced["description"] = f"{tool.get('description') or ''} Price: {price:.6g} a call.".strip()
                priced["_meta"] = {**(tool.get("_meta") or {}), "costgym/price": price}
            tools.append(priced)
        return {**result, "tools": tools}

    async def _answer(self, message: Any) -> None:
        await self._send(SessionMessage(message))

    async def _send(self, message: SessionMessage) -> None:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):  # the client is gone, which its stream will say
            await self._to_client.send(message)

    # -- with the server ---------------------------------------------------------------------------------------------------

    async def _ask(self, message: Any) -> None:
        """Pass a message on to the server."""
        headers = {VERSION_HEADER: self._version} if self._version and self._over_http else None
        try:
            await self._to_server.send(SessionMessage(message, ClientMessageMetadata(headers=headers)))
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            await self._lose_server()

    async def _wait_for(self, request: types.JSONRPCRequest, seconds: float) -> Answer:
        """Ask the server and wait for its answer; an error of the proxy's own if it does not come."""
        if self._gone:
            return _error(request.id, types.CONNECTION_CLOSED, GONE)
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        # entered before the server is asked, since its answer may come first
        self._pending[request.id] = answer
        try:
            with anyio.move_on_after(seconds):
                await self._ask(request)
                return await answer
            params = {"requestId": request.id, "reason": "timed out"}
            await self._ask(types.JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params=params))
            return _error(request.id, types.REQUEST_TIMEOUT, f"the server did not answer within {seconds:g} s")
        finally:
            self._pending.pop(request.id, None)

    async def _read_server(self) -> None:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            async for item in self._from_server:
                if not isinstance(item, Exception):  # a line that is not a message
                    await self._take(item.message)
        await self._lose_server()

    async def _take(self, message: Any) -> None:
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError) and message.id is not None:
            # the answer to a call goes to `_call`, which decides what the client sees of it
            pending = self._pending.get(message.id)
            if pending is not None:
                if not pending.done():
                    pending.set_result(message)
                return
            method = self._passing.pop(message.id, None)
            if method is None:
                return  # it comes too late
            if isinstance(message, types.JSONRPCResponse):
                if method == "initialize":
                    self._server_name = str((message.result.get("serverInfo") or {}).get("name") or "")
                    self._version = str(message.result.get("protocolVersion") or "")
                    able = (message.result.get("capabilities") or {}).get("tools")
                    if self._imposes and isinstance(able, dict):
                        able["listChanged"] = True  # since their prices may change
                if method == "tools/list":
                    message = _result(message.id, self._with_prices(message.result))
            await self._answer(message)
            return
        await self._send(SessionMessage(message, ServerMessageMetadata(related_request_id=self._related(message))))

    def _related(self, message: Any) -> types.RequestId | None:
        """The client's request that a message of the server's belongs to, where that is known."""
        token = (getattr(message, "params", None) or {}).get("progressToken")
        if token in self._tokens:
            return self._tokens[token]
        return next(iter(self._calls)) if len(self._calls) == 1 else None

    async def _lose_server(self) -> None:
        """Answer all requests that wait for a server that is gone."""
        if self._gone:
            return
        self._gone = True
        for request, pending in self._pending.items():
            if not pending.done():
                pending.set_result(_error(request, types.CONNECTION_CLOSED, GONE))
        for number in list(self._passing):
            del self._passing[number]
            await self._answer(_error(number, types.CONNECTION_CLOSED, GONE))


_TOOLS_CHANGED = types.JSONRPCNotification(jsonrpc="2.0", method="notifications/tools/list_changed")
_LOST = (types.CONNECTION_CLOSED, types.REQUEST_TIMEOUT)


def _real(answer: Answer, seconds: float, gone: bool) -> Real:
    """What the server did, in the world's words."""
    if isinstance(answer, types.JSONRPCError):
        words, code = answer.error.message, answer.error.code
        if code == types.REQUEST_TIMEOUT:
            return Real(words, Status.TIMEOUT, seconds)
        if gone or code == types.CONNECTION_CLOSED:
            return Real(GONE, Status.CONNECTION_ERROR, seconds)
        known = {types.INVALID_PARAMS: Status.INVALID_ARGUMENTS, types.METHOD_NOT_FOUND: Status.NOT_FOUND}
        return Real(words, known.get(code) or failure_in_words(words), seconds)
    texts = [block["text"] for block in answer.result.get("content") or () if block.get("type") == "text" and "text" in block]
    text = "\n".join(texts)
    return Real(text, failure_in_words(text) if answer.result.get("isError") else Status.OK, seconds)


def _spoilt(result: Mapping[str, Any], spoil: Callable[[str], str], status: Status) -> dict[str, Any]:
    """A result whose texts and structured content have a silent fault."""
    changed_result = dict(result)
    changed_result["content"] = [
        {**block, "text": spoil(block["text"])} if block.get("type") == "text" and "text" in block else block
        for block in result.get("content") or ()
    ]
    structured = changed_result.pop("structuredContent", None)
    if structured is not None and status is not Status.PARTIAL:  # half an object is none
        changed = json.loads(spoil(json.dumps(structured)))
        if isinstance(changed, dict):
            changed_result["structuredContent"] = changed
    return changed_result


def _content(text: str, failed: bool = False) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": failed}


def _words(status: Status, message: str) -> str:
    return json.dumps({"error": status.label, "message": message})


def _result(number: types.RequestId, result: dict[str, Any]) -> types.JSONRPCResponse:
    return types.JSONRPCResponse(jsonrpc="2.0", id=number, result=result)


def _error(number: types.RequestId, code: int, message: str) -> types.JSONRPCError:
    return types.JSONRPCError(jsonrpc="2.0", id=number, error=types.ErrorData(code=code, message=message))
