"""Serve an episode's tools over MCP, with their prices, latencies and failures.

`tools/list` returns the task's candidates with their schemas and prices, `tools/call` makes a call in the simulated world. Four
further tools are `task`, `budget`, `wait` and `finish`. An MCP session is an episode. Over HTTP it is either the
protocol's own session (`/mcp`), or one that the client names in the URL (`/mcp/NAME?seed=7&index=3`), which also serves clients
of the protocol's 2026 revision, whose requests have no session.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakValueDictionary

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Message, Receive, Scope, Send

from costgym.envs.actions import RESERVED
from costgym.experiments.play.text_episode import tool_name
from costgym.experiments.serve.connections import replayed
from costgym.experiments.serve.limits import Limits, Refused
from costgym.experiments.serve.openenv import PlainResponse, client_of, read_json
from costgym.experiments.serve.sessions import Session, Sessions
from costgym.experiments.serve.wire import LARGEST_SEED, seen
from costgym.simulators import __version__
from costgym.simulators.bounds import unreadable
from costgym.simulators.status import LOOKS_OK

if TYPE_CHECKING:
    from costgym.envs.chat import MarketplaceChatEnv

SESSION_HEADER, VERSION_HEADER = "mcp-session-id", "mcp-protocol-version"
LONGEST_NAME = 64
INSTRUCTIONS = (
    "A simulated marketplace of tools. Ask `task` what the user wants, call tools, and submit the answer with `finish`. "
    "Every executed call costs its price, even if it fails; `budget` returns the prices and the remaining budget. Tools may be "
    "slow, wrong or out of order."
)


def _tool(name: str, description: str, properties: dict[str, Any] | None = None, *required: str) -> types.Tool:
    schema = {"type": "object", "properties": properties or {}, "required": list(required)}
    return types.Tool(name=name, description=description, input_schema=schema)


_SECONDS = {"type": "number", "minimum": 0, "maximum": 86_400}
_ANSWER = {"type": "string", "description": "Everything the user asked for."}
OURS = (
    _tool("task", "What the user wants. Costs nothing."),
    _tool("budget", "What was spent, what is left, and what a call of each tool costs now. Costs nothing."),
    _tool("wait", "Let simulated time pass, for example until a rate limit is over.", {"seconds": _SECONDS}, "seconds"),
    _tool(
        "finish", "Submit the final answer and end the episode.", {"answer": _ANSWER, "give_up": {"type": "boolean"}}, "answer"
    ),
)
"""Tools besides the candidates."""
_TAKEN = frozenset({*(tool.name for tool in OURS), *RESERVED})
_NO_REQUEST = {
    "jsonrpc": "2.0",
    "id": None,
    "error": {"code": types.INVALID_REQUEST, "message": "expected a request of JSON-RPC, with a method"},
}
_ANOTHER = " Another name in the URL begins another episode."
PREFIX = "tool_"  # stands before the name of a candidate that has the name of one of `OURS`


class Tools:
    """Answers MCP's requests by playing episodes in sessions."""

    def __init__(self, sessions: Sessions) -> None:
        self.sessions = sessions
        self.server: Server[Any] = Server(
            "costgym",
            version=__version__,
            instructions=INSTRUCTIONS,
            on_list_tools=self._list,
            on_call_tool=self._call,
            on_list_prompts=self._prompts,
            on_get_prompt=self._prompt,
        )

    # -- MCP's requests --------------------------------------------------------------------------------------------------

    async def _list(self, context: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=describe(_chat(self._session(context))))

    async def _call(self, context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        if problem := unreadable([params.name, params.arguments]):
            raise MCPError(types.INVALID_PARAMS, problem)
        return call(self._session(context), params.name, params.arguments or {})

    async def _prompts(self, context: Any, params: Any) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[types.Prompt(name="task", description="What the user wants.")])

    async def _prompt(self, context: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        if params.name != "task":
            raise MCPError(types.INVALID_PARAMS, f"unknown prompt {params.name!r:.60}; known: task")
        text = types.TextContent(text=_chat(self._session(context)).query)
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=text)])

    # -- OpenEnv's way of MCP --------------------------------------------------------------------------------------------

    def openenv(self, body: bytes, client: str = "") -> dict[str, Any] | None:
        """The answer to a request of OpenEnv 0.10's tool clients, which name the session in the parameters; None for others."""
        try:
            request = read_json(body)
            if isinstance(request, dict) and not request.keys() & {"method", "result", "error"}:
                return _NO_REQUEST  # OpenEnv's validator tests for MCP in this way
            method, params = request["method"], request.get("params") or {}
            ours = method.startswith("openenv/session/") or (method in ("tools/list", "tools/call") and "session_id" in params)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return None  # the SDK says what is wrong with it
        if not ours or not isinstance(request.get("id"), int | str | None):
            return None
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request.get("id")}
        try:
            if not isinstance(params, dict):
                raise Refused(f"params: expected an object, got {type(params).__name__}")
            return {**answer, "result": self._openenv(method, params, client)}
        except Refused as error:
            return {**answer, "error": {"code": types.INVALID_PARAMS, "message": str(error)}}

    def _openenv(self, method: str, params: Mapping[str, Any], client: str) -> dict[str, Any]:
        if method == "openenv/session/create":
            return {"session_id": self.sessions.open(client=client).name}
        session = self.sessions.get(params.get("session_id"))
        if method == "openenv/session/close":
            self.sessions.close(session)
            return {"session_id": session.name, "closed": True}
        session.begin()
        if method == "tools/list":
            tools = [tool.model_dump(by_alias=True, exclude_none=True, mode="json") for tool in describe(_chat(session))]
            return {"tools": tools}
        name, arguments = params.get("name"), params.get("arguments") or {}
        if method != "tools/call" or not isinstance(name, str) or not isinstance(arguments, dict):
            raise Refused("expected tools/call with a name and an object of arguments")
        return call(session, name, arguments).model_dump(by_alias=True, exclude_none=True, mode="json")

    def _session(self, context: Any) -> Session:
        """The session of a request, opened with its first one."""
        request: Request | None = context.request
        name, wish = ("stdio", {}) if request is None else _address(request)
        session = self.sessions.find(name)
        try:
            if session is None:
                session = self.sessions.open(name, client="" if request is None else client_of(request))
                try:
                    session.reset(wish)
                except BaseException:
                    self.sessions.close(session)
                    raise
                session.wish = wish
            elif wish and wish != session.wish:
                raise Refused(f"the session {name!r:.80} was opened with another seed or task; choose another name")
            self.sessions.use(session)
        except Refused as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from error
        return session


def _address(request: Request) -> tuple[str, dict[str, Any]]:
    """The session of a request, and the reset options in its URL."""
    name = request.path_params.get("name") or request.url.path.removeprefix("/mcp").strip("/")
    if name and (len(name) > LONGEST_NAME or not all(mark.isalnum() or mark in "._-" for mark in name)):
        problem = f"a session's name has up to {LONGEST_NAME} letters, digits, dots, dashes and underscores, got {name!r:.80}"
        raise MCPError(types.INVALID_PARAMS, problem)
    wish: dict[str, Any] = {
        key: int(text) if key != "split" and text.isdecimal() and len(text) <= len(str(LARGEST_SEED)) else text
        for key, text in request.query_params.items()
    }
    return f"mcp/{name}" if name else f"mcp:{request.headers.get(SESSION_HEADER, '')}", wish


# -- the episode as tools -------------------------------------------------------------------------------------------------


def _chat(session: Session) -> "MarketplaceChatEnv":
    return cast("MarketplaceChatEnv", session.env.unwrapped)  # tools are offered only where actions call them by name


def describe(env: "MarketplaceChatEnv") -> list[types.Tool]:
    """List the candidates with their prices, then the further tools."""
    currency = env.currency
    quotes, tools = env.quotes(), []
    for tool in env.candidates:
        profile, price = tool.profile, quotes[tool.name]
        claim = (
            f"Price: {price:.6g} {currency} a call. "
            f"Advertised: {profile.advertised_success:.0%} success, {profile.advertised_latency_s:.2g} s."
        )
        tools.append(
            types.Tool(
                name=f"{PREFIX}{tool.name}" if tool.name in _TAKEN else tool.name,
                description=f"{tool.description} {claim}",
                input_schema=dict(tool.parameters),
                _meta={"costgym/price": price, "costgym/currency": currency, "costgym/category": tool.category},
            )
        )
    functions = [(function.name, function.description, dict(function.parameters)) for function in env.more_functions]
    more = [_tool(name, about, takes["properties"], *takes.get("required", ())) for name, about, takes in functions]
    named = [tool.name for tool in more]
    return [*tools, *more, *(tool for tool in OURS if tool.name not in named)]  # a session has a `wait` of its own


def call(session: Session, name: str, arguments: Mapping[str, Any]) -> types.CallToolResult:
    """Answer a `tools/call` with the tool's text and the cost of the call."""
    env = _chat(session)
    if name == "task":
        # a name that an earlier client used and left goes on where that one stopped
        left = f"\n\n(This episode is unfinished: {session.steps} steps were played.{_ANOTHER})" if session.unfinished else ""
        return _result(session, env.query + left, {"query": env.query})
    if name == "budget":
        prices = {f"price of {tool}": quote for tool, quote in env.quotes().items()}
        return _result(session, json.dumps({**_standing(session), **prices}), {"prices": env.quotes()})
    if not session.playing:
        return _result(session, "the episode has ended; connect again for another", {}, failed=True)
    # a candidate that is named like one of our own tools was listed with a prefix, which the world does not know
    whole = name.removeprefix(PREFIX)
    world_name = name if name in ("wait", "finish") else tool_name(whole if whole in _TAKEN else name)
    # a step may play several calls and pass time: the cost of this one is what log, ledger and clock gain
    before = len(env.account().calls)
    price, at_s = env.account().ledger.price, env.account().now_s
    answer = session.act(json.dumps({"name": world_name, "arguments": dict(arguments)}))
    episode = env.account()
    figures: dict[str, Any] = {"price": episode.ledger.price - price, "seconds": episode.now_s - at_s}
    text = answer["observation"]["text"]
    calls = episode.calls[before:]
    failed = False
    if calls and calls[-1].finished_s >= 0.0:  # how a call in flight ends is not to be told
        figures["status"] = seen(calls[-1].status).label
        failed = calls[-1].status not in LOOKS_OK
        if not text:
            text = episode.content(calls[-1])
    if episode.over and episode.grade is not None:
        figures |= {"passed": env.succeeded, "share_of_facts": episode.grade.share, "exceeded": episode.exceeded}
        text = text or ("the answer is in" if episode.exceeded is None else f"over the budget of {episode.exceeded}")
    return _result(session, text, figures, failed)


def _result(session: Session, text: str, figures: Mapping[str, Any], failed: bool = False) -> types.CallToolResult:
    standing = {**figures, **_standing(session)}
    shown = "; ".join(
        f"{key.replace('_', ' ')} {f'{value:.6g}' if isinstance(value, float) else value}"
        for key, value in standing.items()
        if not isinstance(value, dict) and key != "query"
    )
    block = types.TextContent(text=f"{text}\n\n[{shown}]")  # one block, since some clients read only the first
    return types.CallToolResult(content=[block], structured_content=standing, is_error=failed)


def _standing(session: Session) -> dict[str, Any]:
    env = _chat(session)
    episode = env.account()
    left = {f"left_{name}": value for name, value in episode.remaining().items()}
    return {
        "at_s": float(episode.now_s),
        "spent_price": episode.ledger.price,
        **left,
        "episode_over": not session.playing,
        "task": episode.task.id,
    }


# -- over HTTP ------------------------------------------------------------------------------------------------------------


class McpEndpoint:
    """`/mcp` and `/mcp/NAME` as an ASGI application; `manager.run()` must be entered around its life."""

    def __init__(self, tools: Tools, limits: Limits) -> None:
        self._tools = tools
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.manager = StreamableHTTPSessionManager(
            app=tools.server,
            json_response=True,
            session_idle_timeout=limits.idle_s,
            max_request_body_size=limits.request_bytes,
            max_sessions=limits.sessions,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        unnamed = scope["path"].removeprefix("/mcp").strip("/") == ""
        if unnamed and headers.get(VERSION_HEADER) in MODERN_PROTOCOL_VERSIONS:
            # such requests cannot be told apart without a name; the client falls back to a session of the protocol
            await need_session(scope, receive, send, "a request without a session needs a session's name in the URL: /mcp/NAME")
            return
        if unnamed and scope["method"] == "POST" and SESSION_HEADER not in headers:
            body = await Request(scope, receive).body()
            answer = self._tools.openenv(body, client_of(Request(scope)))
            if answer is not None:
                await PlainResponse(answer)(scope, receive, send)
                return
            receive = replayed(body, receive)
        if scope["method"] == "GET" or SESSION_HEADER not in headers:
            await self._pass_on(scope, receive, send, headers)
            return
        name = headers[SESSION_HEADER]
        turn = self._turns.setdefault(name, asyncio.Lock())
        async with turn:  # the SDK loses an answer where two requests have one id, or one ends the session meanwhile
            await self._pass_on(scope, receive, send, headers)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send, headers: Mapping[str, str]) -> None:
        """Let the SDK answer; the end of its session closes ours."""
        ended = headers.get(SESSION_HEADER) if scope["method"] == "DELETE" else None

        async def watch(message: Message) -> None:
            if ended is not None and message["type"] == "http.response.start" and message["status"] < 400:
                session = self._tools.sessions.find(f"mcp:{ended}")
                if session is not None:
                    self._tools.sessions.close(session)
            await send(message)

        await self.manager.handle_request(scope, receive, watch)


async def need_session(scope: Scope, receive: Receive, send: Send, message: str) -> None:
    """Refuse a request without a session, so that the client falls back to a session of the protocol."""
    try:
        number = json.loads(await Request(scope, receive).body())["id"]
    except (ValueError, TypeError, KeyError, RecursionError):
        number = None
    error = {
        "code": types.UNSUPPORTED_PROTOCOL_VERSION,
        "message": message,
        "data": {"supported": list(HANDSHAKE_PROTOCOL_VERSIONS), "requested": MODERN_PROTOCOL_VERSIONS[-1]},
    }
    await JSONResponse({"jsonrpc": "2.0", "id": number, "error": error}, 400)(scope, receive, send)


async def serve_stdio(tools: Tools) -> None:
    """Serve one episode over standard input and output, until the client closes them."""
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (reader, writer):
        await tools.server.run(reader, writer, tools.server.create_initialization_options())
