"""Serve the proxy: between a client on standard input or HTTP and a server that is a command or an address."""

import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from uuid import uuid4

import anyio
import mcp_types as types
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from costgym.experiments.serve.connections import Gate, configuration, replayed
from costgym.experiments.serve.limits import Access, Limits, Refused, network_of
from costgym.experiments.serve.openenv import client_of
from costgym.experiments.serve.proxy.bridge import Bridge
from costgym.experiments.serve.proxy.session import Settings
from costgym.experiments.serve.server import Server, run_server
from costgym.experiments.serve.tools import SESSION_HEADER, VERSION_HEADER, need_session
from costgym.simulators.errors import ConfigError, CostGymError

GOODBYE_S = 5.0  # real time that a server over HTTP has to end a session
IDLE_S = 1800.0  # real time after which a silent client over HTTP is gone
LIMITS = Limits(sessions=64, request_bytes=4 * 2**20)
"""Limits of the clients over HTTP. Each session runs its own server; a call may hold a document."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy between MCP clients and an MCP server."""

    target: tuple[str, ...]  # the command of the server, or its address alone
    settings: Settings = field(default_factory=Settings)
    timeout_s: float = 60.0  # real seconds after which a call of the server counts as timed out
    tells: bool = False  # replies have a last line with the call's price and the rest of the budget

    @property
    def address(self) -> str | None:
        """The server's address, if it is one."""
        return self.target[0] if len(self.target) == 1 and self.target[0].startswith(("http://", "https://")) else None

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[tuple[Any, Any]]:
        """A connection to the server: a stream to read from and one to write to."""
        if self.address is not None:
            async with _over_http(self.address) as streams:
                yield streams
            return
        from mcp.client.stdio import StdioServerParameters, stdio_client

        command = StdioServerParameters(command=self.target[0], args=list(self.target[1:]), env=dict(os.environ))
        connection = stdio_client(command)
        try:
            streams = await connection.__aenter__()
        except (OSError, ValueError) as error:
            raise ConfigError("COMMAND", f"{self.target[0]} cannot be started: {error}") from error
        try:
            yield streams[0], streams[1]
        finally:
            await connection.__aexit__(None, None, None)

    def bridge(self, client: tuple[Any, Any], server: tuple[Any, Any], over_http: bool = False) -> Bridge:
        """The bridge between one client and its server."""
        speaks_http = over_http or self.address is not None
        return Bridge(client, server, self.settings, timeout_s=self.timeout_s, tells=self.tells, over_http=speaks_http)


@asynccontextmanager
async def _over_http(address: str) -> AsyncIterator[tuple[Any, Any]]:
    """A connection to a server over HTTP; when it breaks, the stream to read from ends, and nothing else does."""
    from mcp.client.streamable_http import streamable_http_client

    coming, come = anyio.create_memory_object_stream[Any](0)
    go, going = anyio.create_memory_object_stream[Any](0)
    ended = anyio.Event()

    async def pass_on(source: Any, target: Any) -> None:
        async for item in source:
            await target.send(item)

    async def keep(*, task_status: Any) -> None:
        try:
            async with streamable_http_client(address) as (reader, writer), anyio.create_task_group() as group:
                task_status.started()
                group.start_soon(pass_on, reader, coming)
                await pass_on(going, writer)
                group.cancel_scope.cancel()
        # a broken connection ends this stream alone; raised here, it would cancel all that the session still does
        except Exception as error:
            logging.getLogger(__name__).debug("the connection to %s broke", address, exc_info=error)
        finally:
            coming.close()
            going.close()
            ended.set()

    async with anyio.create_task_group() as group, come, go:
        await group.start(keep)
        yield come, go
        go.close()
        with anyio.move_on_after(GOODBYE_S):
            await ended.wait()
        group.cancel_scope.cancel()


async def serve_stdio(proxy: Proxy) -> None:
    """Serve the client on standard input and output until it closes them."""
    from mcp.server.stdio import stdio_server

    async with proxy.connect() as server, stdio_server() as client:
        await proxy.bridge(client, server).run()


def first_of_ours(error: BaseException) -> CostGymError | None:
    """The first error of costgym in a group of errors, if there is one."""
    if isinstance(error, CostGymError):
        return error
    if isinstance(error, BaseExceptionGroup):
        return next((ours for exception in error.exceptions if (ours := first_of_ours(exception)) is not None), None)
    return None


def no_beginning(request: Request, body: bytes) -> str | None:
    """What is wrong with a request that is to open a session, in words: nothing else than a client's `initialize`, in the form
    in which the protocol has it, starts the server behind the proxy."""
    takes = request.headers.get("accept", "")
    if request.method != "POST" or request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        return "expected a POST of application/json that initializes a session"
    if not all(kind in takes or "*/*" in takes for kind in ("application/json", "text/event-stream")):
        return "expected `Accept: application/json, text/event-stream`"
    try:
        message = types.JSONRPCRequest.model_validate_json(body)
        types.InitializeRequestParams.model_validate(message.params)
    except ValueError:
        return "expected a JSON-RPC request `initialize` with the client's name, version and revision of the protocol"
    if message.method != "initialize":
        return f"there is no session yet; expected `initialize`, got {message.method!r:.60}"
    return None


class Endpoint:
    """The proxy at `/mcp` as an ASGI application; each session of the protocol is a run with its own server.
    `?seed=7&run=NAME&task=NAME` in the address of a session's first request override the proxy's own."""

    def __init__(self, proxy: Proxy, limits: Limits = LIMITS) -> None:
        self._proxy, self._limits, self._opened = proxy, limits, 0
        self._sessions: dict[str, StreamableHTTPServerTransport] = {}
        self._clients: dict[str, str] = {}  # the address that opened a session
        self._group: anyio.abc.TaskGroup | None = None

    @property
    def open_sessions(self) -> int:
        return len(self._sessions)

    @asynccontextmanager
    async def life(self, app: object) -> AsyncIterator[None]:
        async with anyio.create_task_group() as self._group:
            yield
            self._group.cancel_scope.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if request.headers.get(VERSION_HEADER) in MODERN_PROTOCOL_VERSIONS:
            await need_session(scope, receive, send, "requests without a session are not supported; initialize one")
            return
        name = request.headers.get(SESSION_HEADER)
        if name in self._sessions:
            await self._sessions[name].handle_request(scope, receive, send)
            return
        try:
            if name is not None:
                raise Refused("there is no such session; initialize a new one", status=404)
            body = await request.body()
            if (problem := no_beginning(request, body)) is not None:
                raise Refused(problem, status=400)
            client, most = network_of(client_of(request)), self._limits.client_sessions
            if self.open_sessions >= self._limits.sessions:
                raise Refused(f"{self._limits.sessions} sessions are open; end one first", status=503)
            if most and sum(other == client for other in self._clients.values()) >= most:
                raise Refused(f"all {most} sessions of this address are open; end one first", status=429)
            proxy = self._proxy_for(request)
        except CostGymError as error:
            await JSONResponse({"error": str(error)}, error.status if isinstance(error, Refused) else 400)(scope, receive, send)
            return
        transport = StreamableHTTPServerTransport(uuid4().hex, idle_timeout=IDLE_S)
        status = 500

        async def watch(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        assert self._group is not None
        await self._group.start(partial(self._serve, proxy, transport, client))
        await transport.handle_request(scope, replayed(body, receive), watch)
        if status >= 400:
            await transport.terminate()

    async def _serve(self, proxy: Proxy, transport: StreamableHTTPServerTransport, address: str, *, task_status: Any) -> None:
        name = str(transport.mcp_session_id)
        self._sessions[name], self._clients[name] = transport, address
        try:
            async with proxy.connect() as server, transport.connect() as client:
                task_status.started()
                assert transport.idle_scope is not None
                with transport.idle_scope:
                    await proxy.bridge(client, server, over_http=True).run()
        except Exception as error:
            # the other clients' sessions go on
            ours = first_of_ours(error)
            logging.getLogger(__name__).error("a session ended: %s", ours or "", exc_info=ours is None)
        finally:
            del self._sessions[name], self._clients[name]
            if not transport.is_terminated:
                with anyio.CancelScope(shield=True):
                    await transport.terminate()

    def _proxy_for(self, request: Request) -> Proxy:
        """The proxy with the settings in an address."""
        settings, query = self._proxy.settings, request.query_params
        seed = query.get("seed")
        if seed is not None and not (seed.isdecimal() and len(seed) < 19):
            raise ConfigError("seed", f"expected a whole number of at least 0, got {seed!r:.40}")
        self._opened += 1
        run = settings.run if settings.run is None or self._opened == 1 else f"{settings.run}-{self._opened}"
        choices = {"run": query.get("run") or run, "task": query.get("task") or settings.task}
        settings = settings.model_copy(update=choices if seed is None else {**choices, "seed": int(seed)})
        return replace(self._proxy, settings=settings)


def application(proxy: Proxy, limits: Limits = LIMITS, access: Access | None = None) -> Gate:
    """The ASGI application that serves clients at `/mcp`: all of a request is checked before a server is started."""
    endpoint = Endpoint(proxy, limits)
    inner = Starlette(routes=[Route("/mcp", endpoint)], lifespan=endpoint.life)
    return Gate(inner, limits, access or Access())


def serve_http(
    proxy: Proxy, host: str, port: int, ready: Callable[[str], None], access: Access | None = None, limits: Limits = LIMITS
) -> None:
    """Serve clients at `/mcp` until a signal; arguments and errors as for `server.run_server`."""
    limits = limits.of_host(host)
    config = configuration(application(proxy, limits, access), limits)
    run_server(Server(config), host, port, lambda address: ready(f"{address}/mcp"))
