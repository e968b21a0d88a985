"""The server that commands are given: a model in three dialects, and the episode's tools over MCP and plain HTTP.

There is one for all episodes that a process plays. Each episode has an address of its own, which cannot be guessed; what comes
to it lies down on the episode's desk.
"""

import asyncio
import contextlib
import json
import secrets
import socket
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from concurrent.futures import Future
from functools import lru_cache
from pathlib import Path
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from costgym.agents.models.base import ASSISTANT, Message, Reply
from costgym.envs.actions import FINISH
from costgym.experiments.serve.command.desk import Desk, EpisodeEnded, ModelRequest, ToolAnswer, ToolRequest
from costgym.experiments.serve.connections import Gate, configuration
from costgym.experiments.serve.dialects.base import BadRequest, Dialect
from costgym.experiments.serve.dialects.chat import ChatCompletions
from costgym.experiments.serve.dialects.messages import Messages
from costgym.experiments.serve.dialects.responses import Responses
from costgym.experiments.serve.limits import Access, Limits, Refused
from costgym.simulators import __version__
from costgym.simulators.bounds import unreadable
from costgym.simulators.calls import Usage

DIALECTS: tuple[Dialect, ...] = (ChatCompletions(), Responses(), Messages())
KEY = "costgym"  # what stands in place of a key; the address is what lets a command in
_LIMITS = Limits(request_bytes=8 * 2**20, timeout_s=30.0)
_NO_EPISODE = "there is no episode at this address"


class Endpoint:
    """The server, in a thread of its own, at a port of this machine and at a Unix socket."""

    def __init__(self) -> None:
        self._desks: dict[str, Desk] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="costgym-endpoint-")
        self.socket_path = str(Path(self._folder.name) / "socket")
        self._mcp = Server[Any]("costgym", version=__version__, on_list_tools=self._list_tools, on_call_tool=self._call_tool)
        self._manager = StreamableHTTPSessionManager(self._mcp, json_response=True, stateless=True)
        routes = [Route(f"/{{token}}/{dialect.path}", self._model_endpoint(dialect), methods=["POST"]) for dialect in DIALECTS]
        routes += [
            Route("/{token}/v1/models", self._models),
            Route("/{token}/tools", self._tools),
            Route("/{token}/tools/{name:path}", self._tool, methods=["POST"]),
            Route("/{token}/mcp", _Asgi(self._serve_mcp), methods=["GET", "POST", "DELETE"]),
        ]
        tcp = socket.create_server(("127.0.0.1", 0), backlog=512)
        tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # see `server.listen`
        unix = socket.socket(socket.AF_UNIX)
        unix.bind(self.socket_path)
        unix.listen(512)  # at once: a command may ask before the server's thread has begun
        self.port = int(tcp.getsockname()[1])
        application = Starlette(routes=routes, lifespan=self._life, exception_handlers={404: _missing})
        self._server = uvicorn.Server(configuration(Gate(application, _LIMITS, Access()), _LIMITS, "error"))
        serving = self._server.serve([tcp, unix])
        threading.Thread(target=asyncio.run, args=(serving,), name="endpoint of commands", daemon=True).start()

    # -- for those who play ----------------------------------------------------------------------------------------------

    def open(self, desk: Desk) -> str:
        """Give a desk an address; returns its secret part."""
        token = secrets.token_urlsafe(18)
        self._desks[token] = desk
        return token

    def close(self, token: str) -> None:
        """Take an address away."""
        self._desks.pop(token, None)

    def variables(self, token: str) -> dict[str, str]:
        """The environment variables by which a command finds the episode of an address."""
        address = f"http://127.0.0.1:{self.port}/{token}"
        return {
            "OPENAI_BASE_URL": f"{address}/v1",
            "OPENAI_API_KEY": KEY,
            "ANTHROPIC_BASE_URL": address,
            "ANTHROPIC_API_KEY": KEY,
            "COSTGYM_MCP_URL": f"{address}/mcp",
            "COSTGYM_TOOLS_URL": f"{address}/tools",
            "NO_PROXY": "127.0.0.1,localhost",
            "OPENAI_AGENTS_DISABLE_TRACING": "1",  # traces would go elsewhere
        }

    # -- the server ------------------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _life(self, app: Starlette) -> AsyncIterator[None]:
        async with self._manager.run():
            yield

    def _desk(self, token: object) -> Desk:
        desk = self._desks.get(token) if isinstance(token, str) else None
        if desk is None:
            raise Refused(_NO_EPISODE, "SESSION_ERROR", 404)
        return desk

    def _model_endpoint(self, dialect: Dialect) -> Any:
        async def answer(request: Request) -> Response:
            try:
                desk = self._desk(request.path_params["token"])
                body = await _body(request)
                ask = dialect.read(body)
                model = str(body.get("model") or "model")[:200]
                try:
                    reply = await _result(desk.put(ModelRequest(ask)))
                except EpisodeEnded as error:
                    # a friendly last word lets an agent's own loop come to its end; it costs nothing
                    reply = Reply(Message(ASSISTANT, f"{error}."), Usage(0, 0))
            except Refused as error:
                headers = {"retry-after": "1"} if error.status == 429 else None
                return JSONResponse(dialect.error(str(error), error.code.lower()), error.status, headers)
            except BadRequest as error:
                return JSONResponse(dialect.error(str(error), "invalid_request_error"), 400)
            except Exception as error:  # the model's server failed, which the episode is told too
                return JSONResponse(dialect.error(f"the model failed ({type(error).__name__})", "server_error"), 500)
            document = dialect.write(reply, model, len(ask.messages))
            if ask.stream:
                return StreamingResponse(_whole(dialect.stream(document)), media_type="text/event-stream")
            return JSONResponse(document)

        return answer

    async def _models(self, request: Request) -> Response:
        model = {"id": "model", "object": "model", "created": 0, "owned_by": "costgym"}
        return JSONResponse({"object": "list", "data": [model]})

    # -- tools over plain HTTP -------------------------------------------------------------------------------------------

    async def _tools(self, request: Request) -> Response:
        """The functions on offer, as chat completions take them, with the price of a call beside each tool."""
        try:
            desk = self._desk(request.path_params["token"])
        except Refused as error:
            return _refusal(error)
        documents = [function.document() for function in list(desk.functions)]
        prices = desk.prices
        for document in documents:
            if (price := prices.get(document["function"]["name"])) is not None:
                document["price"] = price
        return JSONResponse(documents)

    async def _tool(self, request: Request) -> Response:
        """A call of a function, whose arguments are the request's body."""
        try:
            desk = self._desk(request.path_params["token"])
            answer = await self._called(desk, request.path_params["name"], await _body(request))
        except Refused as error:
            return _refusal(error)
        except BadRequest as error:
            return JSONResponse({"detail": str(error), "code": "VALIDATION_ERROR"}, 422)
        return JSONResponse({"content": answer.text, "is_error": answer.failed, **answer.figures})

    async def _called(self, desk: Desk, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        if problem := unreadable([name, dict(arguments)]):
            raise BadRequest(problem)
        try:
            answer: ToolAnswer = await _result(desk.put(ToolRequest(name, arguments)))
        except EpisodeEnded as error:
            return ToolAnswer(f"{error}.", name != FINISH)
        return answer

    # -- tools over MCP --------------------------------------------------------------------------------------------------

    async def _serve_mcp(self, scope: Any, receive: Any, send: Any) -> None:
        await self._manager.handle_request(scope, receive, send)

    async def _list_tools(self, context: Any, params: Any) -> types.ListToolsResult:
        desk = self._desk_of(context)
        prices = desk.prices
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=function.name,
                    description=function.description,
                    input_schema=dict(function.parameters),
                    _meta={"costgym/price": prices[function.name]} if function.name in prices else None,
                )
                for function in list(desk.functions)
            ]
        )

    async def _call_tool(self, context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            answer = await self._called(self._desk_of(context), params.name, params.arguments or {})
        except (Refused, BadRequest) as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from error
        block = types.TextContent(text=answer.text)
        return types.CallToolResult(content=[block], is_error=answer.failed, _meta={"costgym": dict(answer.figures)})

    def _desk_of(self, context: Any) -> Desk:
        request: Request | None = context.request
        try:
            return self._desk("" if request is None else request.url.path.strip("/").partition("/")[0])
        except Refused as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from error


class _Asgi:
    """An ASGI application where a route would take a method for a request handler."""

    def __init__(self, application: Any) -> None:
        self._application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._application(scope, receive, send)


_ONE_AT_A_TIME = threading.Lock()


def endpoint() -> Endpoint:
    """The endpoint of this process, which all its episodes share."""
    with _ONE_AT_A_TIME:  # threads that begin together would each make one
        return _endpoint()


@lru_cache(maxsize=1)
def _endpoint() -> Endpoint:
    return Endpoint()


async def _result(answer: "Future[Any]") -> Any:
    return await asyncio.wrap_future(answer)


async def _body(request: Request) -> dict[str, Any]:
    text = await request.body()
    try:
        body = json.loads(text) if text else {}
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"expected JSON ({str(error)[:120]})") from None
    if not isinstance(body, dict):
        raise BadRequest(f"expected a JSON object, got {type(body).__name__}")
    return body


async def _whole(parts: Iterator[str]) -> AsyncIterator[str]:
    for part in parts:
        yield part


def _refusal(error: Refused) -> Response:
    return JSONResponse({"detail": str(error), "code": error.code}, error.status)


async def _missing(request: Request, error: Exception) -> Response:
    return JSONResponse({"detail": f"there is nothing at {request.url.path[:200]}", "code": "UNKNOWN_TYPE"}, 404)
