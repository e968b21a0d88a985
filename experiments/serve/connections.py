"""Time-outs of connections and limits on the size of requests.

Uvicorn limits neither the time for a request to arrive nor the time for an answer to be read. The protocols here close the
connection of a client that is too slow, without an effect on others.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from .limits import Limits


def protocols(limits: Limits) -> tuple[type[H11Protocol], type[WebSocketsSansIOProtocol]]:
    """Make Uvicorn's protocol classes with the time-outs of `limits`."""

    class Http(H11Protocol):
        """HTTP that closes the connection if the request head does not arrive, or the answer is not read, in time."""

        def __init__(self, config: Config, *args: Any, **kwargs: Any) -> None:
            super().__init__(config, *args, **kwargs)
            self._slow_head: asyncio.TimerHandle | None = None
            self._slow_reader: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._slow_head = self.loop.call_later(limits.read_s, self.transport.abort)

        def data_received(self, data: bytes) -> None:
            idle = self.cycle is None or self.cycle.response_complete
            if idle and self._slow_head is None:
                self._slow_head = self.loop.call_later(limits.read_s, self.transport.abort)
            super().data_received(data)

        def handle_events(self) -> None:
            before = self.scope
            super().handle_events()
            if self.scope is not before:
                self._slow_head = _cancel(self._slow_head)  # a whole head has come

        def pause_writing(self) -> None:
            super().pause_writing()
            if self._slow_reader is None:
                self._slow_reader = self.loop.call_later(limits.write_s, self.transport.abort)

        def resume_writing(self) -> None:
            self._slow_reader = _cancel(self._slow_reader)
            super().resume_writing()

        def connection_lost(self, exc: Exception | None) -> None:
            self._slow_head, self._slow_reader = _cancel(self._slow_head), _cancel(self._slow_reader)
            super().connection_lost(exc)

    class Socket(WebSocketsSansIOProtocol):
        """A WebSocket that closes the connection of a client that does not read in time."""

        _slow_reader: asyncio.TimerHandle | None = None

        def pause_writing(self) -> None:
            super().pause_writing()
            if self._slow_reader is None:
                self._slow_reader = self.loop.call_later(limits.write_s, self.transport.abort)

        def resume_writing(self) -> None:
            self._slow_reader = _cancel(self._slow_reader)
            super().resume_writing()

        def connection_lost(self, exc: Exception | None) -> None:
            self._slow_reader = _cancel(self._slow_reader)
            super().connection_lost(exc)

    return Http, Socket


def _cancel(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """Cancel a timer; return None, its new value."""
    if timer is not None:
        timer.cancel()
    return None


class Gate:
    """An ASGI wrapper that passes on requests that are complete, within the limits, and addressed to an allowed host.

    Args:
        app: the wrapped ASGI application.
        limits: largest size and longest duration of a request.
        hosts: host names of the server; None allows any. The check prevents DNS rebinding, by which a page in a browser could
            reach a server on this machine under a name of its own. A page of another site is never answered.
    """

    def __init__(self, app: ASGIApp, limits: Limits, hosts: frozenset[str] | None) -> None:
        self._app, self._limits, self._hosts = app, limits, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        if not self._welcome(headers):
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            else:
                await _refuse(send, 403, "this server does not answer under that host name or to that origin", "FORBIDDEN")
            return
        if scope["type"] == "websocket" or scope["method"] in ("GET", "HEAD", "DELETE", "OPTIONS"):
            await self._app(scope, receive, send)
            return
        most = self._limits.request_bytes
        declared = headers.get(b"content-length", "0")
        try:
            if int(declared) > most:
                raise OverflowError
            async with asyncio.timeout(self._limits.read_s):
                body = await _whole(receive, most)
        except (OverflowError, ValueError):
            await _refuse(send, 413, f"a request may have {most} bytes", "TOO_LARGE")
            return
        except TimeoutError:
            await _refuse(send, 408, f"the request did not arrive within {self._limits.read_s:g} s", "TOO_SLOW")
            return
        if body is None:
            return  # the client is gone
        await self._app(scope, replayed(body, receive), send)

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
    """A channel that gives a request body which was already read once more, and then what `receive` gives."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


async def _whole(receive: Receive, most: int) -> bytes | None:
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        part = message.get("body", b"")
        size += len(part)
        if size > most:
            raise OverflowError
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


async def _refuse(send: Send, status: int, message: str, code: str) -> None:
    body = json.dumps({"detail": message, "code": code}).encode()
    headers = [(b"content-type", b"application/json"), (b"connection", b"close"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
