"""The gate of every server: who may ask, how large and how slow requests may be, and how many connections a client has.

Uvicorn limits neither the time for a request to arrive nor the time for an answer to be read, nor the connections of one
address. The protocols here close the connection of a client that is too slow or has too many, without an effect on others.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from costgym.experiments.serve.limits import Access, Limits, connections_of_all, network_of

LONGEST_HEAD = 16 * 1024
SHUTDOWN_S = 3  # time for requests in progress to end at shutdown, seconds


def configuration(app: ASGIApp, limits: Limits, log_level: str = "warning") -> Config:
    """Uvicorn's configuration of a server with these limits."""
    http, websocket = protocols(limits)
    return Config(
        app,
        http=http,
        ws=websocket,
        ws_max_size=limits.request_bytes,
        ws_per_message_deflate=False,
        h11_max_incomplete_event_size=LONGEST_HEAD,
        limit_concurrency=connections_of_all(limits.sessions),
        timeout_keep_alive=max(1, int(limits.timeout_s)),
        timeout_graceful_shutdown=SHUTDOWN_S,
        access_log=False,
        log_level=log_level,
        server_header=False,
    )


class _Timer:
    """Calls a function after some seconds, unless it is stopped before."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._handle: asyncio.TimerHandle | None = None

    def start(self, call: Callable[[], None]) -> None:
        """Start to wait; a timer that waits already goes on."""
        if self._handle is None:
            self._handle = asyncio.get_running_loop().call_later(self._seconds, call)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


class _Patient:
    """Closes the connection of a client that does not read its answers in time."""

    timeout_s: float
    transport: asyncio.Transport

    def __init__(self, config: Config, *args: Any, **kwargs: Any) -> None:
        super().__init__(config, *args, **kwargs)  # type: ignore[call-arg]
        self._head, self._reading = _Timer(self.timeout_s), _Timer(self.timeout_s)

    def pause_writing(self) -> None:
        super().pause_writing()  # type: ignore[misc]
        # aborted, not closed: closing would wait for the very client that does not read
        self._reading.start(self.transport.abort)

    def resume_writing(self) -> None:
        self._reading.stop()
        super().resume_writing()  # type: ignore[misc]

    def connection_lost(self, exc: Exception | None) -> None:
        self._head.stop()
        self._reading.stop()
        super().connection_lost(exc)  # type: ignore[misc]


def protocols(limits: Limits) -> tuple[type[H11Protocol], type[WebSocketsSansIOProtocol]]:
    """Make Uvicorn's protocol classes with the time-outs of `limits` and its number of connections of an address."""
    connections: Counter[str] = Counter()

    class Http(_Patient, H11Protocol):
        """HTTP that also closes the connection if the head of a request does not arrive in time, or its client has too many."""

        timeout_s = limits.timeout_s

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._head.start(self.transport.abort)
            self._counted = _Counted(connections, transport)
            if limits.client_connections is not None and self._counted.number > limits.client_connections:
                transport.abort()

        def connection_lost(self, exc: Exception | None) -> None:
            self._counted.release()
            super().connection_lost(exc)

        def handle_websocket_upgrade(self, event: Any) -> None:
            super().handle_websocket_upgrade(event)
            protocol = self.transport.get_protocol()
            if isinstance(protocol, Socket):
                protocol.counted = self._counted  # the connection lives on, with another protocol

        def data_received(self, data: bytes) -> None:
            # only the head of a request is timed here; `Gate` has a time-out for its body
            if self.cycle is None or self.cycle.response_complete:
                self._head.start(self.transport.abort)
            super().data_received(data)

        def handle_events(self) -> None:
            before = self.scope
            super().handle_events()
            if self.scope is not before:
                self._head.stop()  # a whole head has come

    class Socket(_Patient, WebSocketsSansIOProtocol):
        """A WebSocket with the time-out for reading."""

        timeout_s = limits.timeout_s
        counted: "_Counted | None" = None

        def connection_lost(self, exc: Exception | None) -> None:
            if self.counted is not None:
                self.counted.release()
            super().connection_lost(exc)

    return Http, Socket


class _Counted:
    """One connection among those of its client's address; `number` is how many there are with it."""

    def __init__(self, connections: Counter[str], transport: asyncio.Transport) -> None:
        peer = transport.get_extra_info("peername")
        self._connections, self._address = connections, network_of(str(peer[0])) if isinstance(peer, tuple) and peer else ""
        connections[self._address] += 1
        self.number = connections[self._address]

    def release(self) -> None:
        """Count the connection no longer."""
        if self.number:
            self.number = 0
            self._connections[self._address] -= 1
            if not self._connections[self._address]:
                del self._connections[self._address]


class Gate:
    """An ASGI wrapper that passes on requests that are complete, within the limits, addressed to an allowed host by a page of
    an allowed one, and bear the token where there is one. The names prevent DNS rebinding, by which a page in a browser could
    reach a server on this machine under a name of its own; a page does not know the token."""

    def __init__(self, app: ASGIApp, limits: Limits, access: Access) -> None:
        self._app, self._limits, self._access = app, limits, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return

        async def refuse(status: int, message: str, code: str) -> None:
            await JSONResponse({"detail": message, "code": code}, status, {"connection": "close"})(scope, receive, send)

        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        addressed, admitted = self._addressed(headers), self._access.admits(headers.get(b"authorization", ""))
        if scope["type"] == "websocket" and not (addressed and admitted):
            await send({"type": "websocket.close", "code": 1008})
        elif not addressed:
            await refuse(403, "this server does not answer under that host name or to that origin", "FORBIDDEN")
        elif not admitted:
            await refuse(401, "this server answers requests with `Authorization: Bearer TOKEN` alone", "UNAUTHORIZED")
        elif scope["type"] == "websocket":
            await self._app(scope, receive, send)
        else:
            await self._pass_on(scope, receive, send, headers, refuse)

    async def _pass_on(
        self, scope: Scope, receive: Receive, send: Send, headers: dict[bytes, str], refuse: Callable[..., Awaitable[None]]
    ) -> None:
        """Pass a request on once its body has come, whatever its method: every one may have a body."""
        most, body = self._limits.request_bytes, bytearray()
        try:
            # an announced length is refused before a byte of the body is read
            if int(headers.get(b"content-length", "0")) > most:
                raise OverflowError
            async with asyncio.timeout(self._limits.timeout_s):
                async for part in Request(scope, receive).stream():
                    body += part
                    if len(body) > most:
                        raise OverflowError
        except (OverflowError, ValueError):
            await refuse(413, f"a request may have at most {most} bytes", "TOO_LARGE")
        except TimeoutError:
            await refuse(408, f"the request did not arrive within {self._limits.timeout_s:g} s", "TOO_SLOW")
        except ClientDisconnect:
            pass
        else:
            await self._app(scope, replayed(bytes(body), receive), send)

    def _addressed(self, headers: dict[bytes, str]) -> bool:
        origin = headers.get(b"origin")
        try:
            host = urlsplit(f"//{headers.get(b'host', '')}").hostname
            page = host if origin is None else urlsplit(origin).hostname
        except ValueError:
            return False
        return self._access.hosts is None or (host in self._access.hosts and page in self._access.hosts)


def replayed(body: bytes, receive: Receive) -> Receive:
    """A channel that gives a request body that was already read, and then what `receive` gives."""
    delivered = False

    async def replay() -> Message:
        nonlocal delivered
        if delivered:
            return await receive()
        delivered = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
