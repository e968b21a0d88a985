"""Time-outs of connections and limits on the size of requests.

Uvicorn limits neither the time for a request to arrive nor the time for an answer to be read. The protocols here close the
connection of a client that is too slow, without an effect on others.
"""

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from costgym.experiments.serve.limits import Limits


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


def protocols(limits: Limits) -> tuple[type[H11Protocol], type[WebSocketsSansIOProtocol]]:
    """Make Uvicorn's protocol classes with the time-outs of `limits`."""

    class Patient:
        """Closes the connection of a client that does not read its answers in time."""

        transport: asyncio.Transport

        def __init__(self, config: Config, *args: Any, **kwargs: Any) -> None:
            super().__init__(config, *args, **kwargs)  # type: ignore[call-arg]
            self._head, self._reading = _Timer(limits.timeout_s), _Timer(limits.timeout_s)

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

    class Http(Patient, H11Protocol):
        """HTTP that also closes the connection if the head of a request does not arrive in time."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._head.start(self.transport.abort)

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

    class Socket(Patient, WebSocketsSansIOProtocol):
        """A WebSocket with the time-out for reading."""

    return Http, Socket


class Gate:
    """An ASGI wrapper that passes on requests that are complete, within the limits, and addressed to an allowed host (None:
    any). The check prevents DNS rebinding, by which a page in a browser could reach a server on this machine under a name of
    its own. A page of another site is never answered."""

    def __init__(self, app: ASGIApp, limits: Limits, hosts: frozenset[str] | None) -> None:
        self._app, self._limits, self._hosts = app, limits, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return

        async def refuse(status: int, message: str, code: str) -> None:
            await JSONResponse({"detail": message, "code": code}, status, {"connection": "close"})(scope, receive, send)

        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        if not self._welcome(headers):
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            else:
                await refuse(403, "this server does not answer under that host name or to that origin", "FORBIDDEN")
            return
        if scope["type"] == "websocket" or scope["method"] in ("GET", "HEAD", "DELETE", "OPTIONS"):
            await self._app(scope, receive, send)
            return
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

    def _welcome(self, headers: dict[bytes, str]) -> bool:
        origin = headers.get(b"origin")
        try:
            host = urlsplit(f"//{headers.get(b'host', '')}").hostname
            page = host if origin is None else urlsplit(origin).hostname
        except ValueError:
            return False
        if self._hosts is None:
            return page == host  # no page of another site
        return host in self._hosts and page in self._hosts


def replayed(body: bytes, receive: Receive) -> Receive:
    """A channel that gives a request body that was already read, and then what `receive` gives."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
