"""OpenEnv's messages: reset, step and state over HTTP and over a WebSocket, and metadata of the environment.

A WebSocket at `/ws` has its own session, as OpenEnv's clients expect. Over plain HTTP, `POST /reset` opens a session, which
later requests name by `session_id`; OpenEnv's own server forgets it between two requests. `tools` answers OpenEnv's clients
of tools.

Source: OpenEnv 0.10, environment server and client.
"""

import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from costgym.envs.base import base_env
from costgym.experiments.serve.limits import Refused
from costgym.experiments.serve.sessions import Session, Sessions
from costgym.experiments.serve.wire import openapi, schemas
from costgym.simulators import __version__
from costgym.simulators.bounds import unreadable

LOGGER = logging.getLogger("uvicorn.error")
Handler = Callable[[Request, dict[str, Any]], Awaitable[Any]]
GOING_AWAY, TRY_LATER = 1001, 1013


class OpenEnv:
    """The routes of OpenEnv's protocol."""

    def __init__(self, sessions: Sessions, env_id: str, description: str) -> None:
        self.sessions, self.env_id, self.description = sessions, env_id, description
        self.name = env_id.rsplit("/", 1)[-1].rsplit("-v", 1)[0]

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/", answering(self.about)),
            Route("/health", answering(self.health)),
            Route("/schema", answering(self.schema)),
            Route("/metadata", answering(self.metadata)),
            Route("/openapi.json", answering(self.openapi)),
            Route("/reset", answering(self.reset), methods=["POST"]),
            Route("/step", answering(self.step), methods=["POST"]),
            Route("/state", answering(self.state)),
            Route("/close", answering(self.close), methods=["POST"]),
            WebSocketRoute("/ws", self.socket),
        ]

    # -- about the environment -------------------------------------------------------------------------------------------

    async def about(self, request: Request, body: dict[str, Any]) -> Any:
        return {
            "service": "costgym",
            "version": __version__,
            "environment": self.env_id,
            "description": self.description,
            "protocols": {
                "OpenEnv over WebSocket": "/ws",
                "OpenEnv over HTTP": ["POST /reset", "POST /step", "GET /state", "POST /close"],
                **({"MCP": ["/mcp", "/mcp/NAME"]} if base_env(self.sessions.example).calls_by_name else {}),
            },
            "more": {
                "actions and observations": "/schema",
                "OpenAPI": "/openapi.json",
                "open sessions": "/health",
                "name and version": "/metadata",
            },
        }

    async def health(self, request: Request, body: dict[str, Any]) -> Any:
        return {"status": "healthy", "sessions": len(self.sessions), "most_sessions": self.sessions.limits.sessions}

    async def schema(self, request: Request, body: dict[str, Any]) -> Any:
        env = self.sessions.example
        return schemas(env, base_env(env).calls_by_name)

    async def metadata(self, request: Request, body: dict[str, Any]) -> Any:
        return {"name": self.name, "description": self.description, "version": __version__}

    async def openapi(self, request: Request, body: dict[str, Any]) -> Any:
        return openapi(self.name, self.description, await self.schema(request, body))

    # -- episodes over HTTP ----------------------------------------------------------------------------------------------

    async def reset(self, request: Request, body: dict[str, Any]) -> Any:
        named = body.get("session_id", request.query_params.get("session_id"))
        if named is not None:
            return self.sessions.get(named).reset(body)
        session = self.sessions.open(client=client_of(request))
        try:
            answer = session.reset(body)
            if await request.is_disconnected():
                raise Refused("the client is gone", "SESSION_ERROR", 408)
            return answer
        except BaseException:
            self.sessions.close(session)  # no client knows its name
            raise

    def _named(self, request: Request, body: dict[str, Any]) -> Session:
        return self.sessions.get(body.get("session_id", request.query_params.get("session_id")))

    async def step(self, request: Request, body: dict[str, Any]) -> Any:
        session = self._named(request, body)
        action = body.get("action")
        return session.step(action if isinstance(action, dict) else body)

    async def state(self, request: Request, body: dict[str, Any]) -> Any:
        return self.sessions.last_state(request.query_params.get("session_id"))

    async def close(self, request: Request, body: dict[str, Any]) -> Any:
        session = self._named(request, body)
        self.sessions.close(session)
        return {"session_id": session.name, "closed": True}

    # -- episodes over a WebSocket ---------------------------------------------------------------------------------------

    async def socket(self, websocket: WebSocket) -> None:
        """Serve a WebSocket: a session of its own, which ends with the connection, or an open one named by `session_id`."""
        await websocket.accept()
        named = websocket.query_params.get("session_id")
        try:
            session = self.sessions.open(client=client_of(websocket)) if named is None else self.sessions.get(named)
            if session.hang_up is not None:
                raise Refused("the session is held by another WebSocket", "SESSION_ERROR", 409)
        except Refused as error:
            await websocket.send_text(_error(error))
            await websocket.close(TRY_LATER)
            return

        async def hang_up() -> None:
            await websocket.close(GOING_AWAY, "idle for too long")

        session.hang_up = hang_up
        try:
            while (message := await websocket.receive())["type"] == "websocket.receive":
                answer = self._respond(session, message.get("text"))
                if answer is None:
                    await websocket.close()
                    break
                await websocket.send_text(answer)
        except (WebSocketDisconnect, RuntimeError, OSError):
            pass  # the client is gone, or was hung up
        finally:
            session.hang_up = None
            if named is None:
                self.sessions.close(session)

    def _respond(self, session: Session, text: str | None) -> str | None:
        """Answer a message; None if the client closes the session."""
        try:
            self.sessions.use(session)
            try:
                message = read_json(text) if text is not None else None
            except (ValueError, RecursionError) as error:
                raise Refused(f"expected JSON text ({str(error)[:120]})", "INVALID_JSON") from None
            if not isinstance(message, dict):
                raise Refused("expected a JSON object with type and data, as text", "INVALID_JSON")
            kind, data = message.get("type"), message.get("data", {})
            if kind == "close":
                return None
            if kind == "state":
                return json.dumps({"type": "state", "data": session.state()})
            if kind not in ("reset", "step"):
                raise Refused(f"unknown message type {kind!r:.60}; known: reset, step, state, close", "UNKNOWN_TYPE")
            if not isinstance(data, dict):
                raise Refused(f"data: expected an object, got {type(data).__name__}")
            done = session.reset(data) if kind == "reset" else session.step(data)
            return json.dumps({"type": "observation", "data": done})
        except Refused as error:
            return _error(error)
        except Exception:
            LOGGER.exception("session %s failed", session.name)
            return _error(Refused("the server failed; the error is in its log", "EXECUTION_ERROR", 500))


def read_json(text: str | bytes) -> Any:
    """Read JSON that can also be written: no lone surrogates, no endless numbers, no bottomless lists; ValueError or
    RecursionError otherwise."""
    value = json.loads(text)
    if problem := unreadable(value):
        raise ValueError(problem)
    return value


def client_of(connection: HTTPConnection) -> str:
    """The address of a client."""
    return connection.client.host if connection.client is not None else ""


class PlainResponse(JSONResponse):
    """JSON in ASCII, which can hold every text."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, separators=(",", ":")).encode("ascii")


def _error(error: Refused) -> str:
    return json.dumps({"type": "error", "data": {"message": str(error), "code": error.code}})


def answering(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """Make an HTTP endpoint from a handler of JSON objects; a refusal is answered with its reason."""

    async def endpoint(request: Request) -> Response:
        try:
            return PlainResponse(await handler(request, await _body(request)))
        except Refused as error:
            headers = {"Retry-After": f"{max(1, round(error.retry_after_s))}"} if error.retry_after_s else None
            return PlainResponse({"detail": str(error), "code": error.code}, error.status, headers)

    return endpoint


async def _body(request: Request) -> dict[str, Any]:
    if request.method == "GET":
        return {}
    text = await request.body()
    if not text:
        return {}
    try:
        body = read_json(text)
    except (ValueError, RecursionError) as error:
        raise Refused(f"expected JSON ({str(error)[:120]})", "INVALID_JSON", 400) from None
    if not isinstance(body, dict):
        raise Refused(f"expected a JSON object, got {type(body).__name__}", "INVALID_JSON", 400)
    return body
