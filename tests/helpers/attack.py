"""A grammar fuzzer for the server: right, nearly right and wrong messages over HTTP, WebSocket, OpenEnv and MCP.

Every answer is searched for what an agent must not know, and must be no failure of the server. By hand:
``python -m tests.helpers.attack 20000 0`` sends 20,000 messages from seed 0.
"""

import asyncio
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import Any

import costgym
from costgym.experiments.serve.limits import Access, Limits
from costgym.experiments.serve.server import Service
from costgym.experiments.serve.sessions import Recorder

ENV = "costgym/MarketplaceChat-v0"
SECRET_SEED = 7_340_918_265_401
"""The server's first seed; sessions count up from it."""
WORLD = {
    "name": "leaky",
    "failures": {
        "usable": 0.3, "dead_share": 0.3, "perfect_share": 0.2, "sticky": 0.2,
        "kinds": {"empty": 1, "irrelevant": 1, "partial": 1},
    },
    "source": {"kind": "marketplace", "tools": 12, "providers": 4, "categories": 1, "train": 6, "test": 6, "candidates": 12},
}  # fmt: skip
_HIDDEN = re.compile(
    r'73409182\d{5}|irrelevant|no_data|"(empty|partial|corrupt|drifted)"|[, "]empty,|,(empty|partial)'
    r"|\bstatus(es)?\W{1,6}(empty|partial|18\b|38\b|39\b|4[123]\b)"
)


def secret_in(text: str) -> str | None:
    """What an answer tells that it must not: a seed, or how a call ended behind what it looks like."""
    match = _HIDDEN.search(text)
    return None if match is None else text[max(0, match.start() - 60) : match.end() + 60]


def make_env() -> Any:
    """An environment of the service."""
    return costgym.make(ENV, scenario=WORLD, split="test", disable_env_checker=True)


def make_service(recorder: Recorder | None = None, access: Access | None = None, **limits: Any) -> Service:
    """A service of a world whose tools fail in the ways that an agent cannot see."""
    settings = {"sessions": 64, "openings": 1e6, "rate": 1e6, **limits}
    return Service(make_env, ENV, "a world", Limits(**settings), SECRET_SEED, access, recorder=recorder)


# -- the application without a network -------------------------------------------------------------------------------------


def _scope(kind: str, path: str, headers: dict[str, str], **more: Any) -> dict[str, Any]:
    route, _, query = path.partition("?")
    all_headers = {"host": "localhost", **headers}
    return {
        "type": kind, "path": route, "raw_path": route.encode("utf-8", "replace"), "query_string": query.encode(),
        "headers": [(name.encode(), value.encode("latin-1", "replace")) for name, value in all_headers.items()],
        "root_path": "", "http_version": "1.1", "scheme": "http", "server": ("localhost", 80), "client": ("127.0.0.1", 1),
        **more,
    }  # fmt: skip


async def http(service: Service, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, str]:
    """Status and text of the answer to a request."""
    status, _, text = await request(service, method, path, body, headers)
    return status, text


async def request(
    service: Service, method: str, path: str, body: bytes, headers: dict[str, str]
) -> tuple[int, dict[str, str], str]:
    """Status, headers and text of the answer to a request."""
    sent: list[Any] = []
    parts = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        return parts.pop() if parts else await asyncio.sleep(3600)

    async def send(message: Any) -> None:
        sent.append(message)

    all_headers = {"content-type": "application/json", "accept": "application/json, text/event-stream", **headers}
    await asyncio.wait_for(service.app(_scope("http", path, all_headers, method=method), receive, send), 20)
    answered = {name.decode(): value.decode("latin-1") for name, value in sent[0].get("headers", ())}
    return sent[0]["status"], answered, b"".join(message.get("body", b"") for message in sent[1:]).decode("utf-8", "replace")


async def socket(service: Service, messages: Iterable[str | bytes], path: str = "/ws", **headers: str) -> list[str]:
    """The answers to the messages of one WebSocket, which then hangs up."""
    waiting: list[Any] = [{"type": "websocket.disconnect", "code": 1006}]
    for message in reversed(list(messages)):
        waiting.append({"type": "websocket.receive", "text" if isinstance(message, str) else "bytes": message})
    waiting.append({"type": "websocket.connect"})
    sent: list[str] = []

    async def receive() -> Any:
        return waiting.pop() if waiting else await asyncio.sleep(3600)

    async def send(message: Any) -> None:
        if message["type"] == "websocket.send":
            sent.append(message["text"])

    await asyncio.wait_for(service.app(_scope("websocket", path, headers, subprotocols=[]), receive, send), 20)
    return sent


# -- the grammar -----------------------------------------------------------------------------------------------------------

_ATOMS: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 3, 2**63, 10**400, 0.5, -1e308, float("nan"), float("inf"), "", "a", "\ud800", "\0", "x" * 300,
    "task", "finish", "wait", "budget", "train", "test", "../..", "9" * 30, [], {}, [[]], {"": None}, "\U0001f600", "call_tool",
)  # fmt: skip
_KEYS = ("session_id", "seed", "task", "index", "split", "episode_id", "action", "name", "arguments", "calls", "usage", "data",
         "type", "params", "method", "id", "jsonrpc", "start", "stop", "metadata", "tool_name", "\udfff", "")  # fmt: skip
MCP_SESSION = "mcp-session-id"
GREETING = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
"""What an MCP client sends with `initialize`."""


class Attacker:
    """Makes messages and remembers what honest clients would know.

    Args:
        seed: keys all choices.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.names: list[str] = ["x"]
        self.tools: list[dict[str, Any]] = []
        self.protocol_sessions: list[str] = []

    def value(self, depth: int = 0) -> Any:
        random = self.random
        if depth < 4 and random.random() < 0.25:
            count = random.randrange(4)
            if random.random() < 0.5:
                return [self.value(depth + 1) for _ in range(count)]
            return {random.choice(_KEYS): self.value(depth + 1) for _ in range(count)}
        return random.choice((*_ATOMS, random.choice(self.names)))

    def call(self) -> dict[str, Any]:
        """A call of a tool on offer; its arguments fit the schema."""
        random = self.random
        if not self.tools or random.random() < 0.2:
            name = random.choice(("wait", "finish", "nothing", "task"))
            return {"name": name, "arguments": {"seconds": 1, "answer": "no"}}
        tool = random.choice(self.tools)
        schema = tool.get("parameters") or {}
        right = {"string": "Oslo", "integer": 3, "number": 2.5, "boolean": True}
        arguments = {name: right.get(schema["properties"][name].get("type"), "x") for name in schema.get("required", ())}
        return {"name": tool["name"], "arguments": arguments}

    def spoil(self, message: Any) -> Any:
        """The message, in half of the cases with something else somewhere."""
        random = self.random
        if not isinstance(message, dict) or random.random() < 0.5:
            return message
        spoilt = dict(message)
        key = random.choice([*spoilt, random.choice(_KEYS)])
        if isinstance(spoilt.get(key), dict) and random.random() < 0.6:
            spoilt[key] = self.spoil(spoilt[key])
        elif random.random() < 0.2:
            spoilt.pop(key, None)
        else:
            spoilt[key] = self.value()
        return spoilt

    def text(self, message: Any) -> bytes:
        """Bytes of a message, sometimes cut, doubled or no JSON at all."""
        raw = json.dumps(message).encode()
        luck = self.random.random()
        if luck < 0.03:
            return raw[: self.random.randrange(len(raw) + 1)]
        if luck < 0.05:
            return raw + raw
        return b"[" * 5_000 if luck < 0.055 else b"\xff\xfe" + raw if luck < 0.06 else raw

    def rpc(self) -> dict[str, Any]:
        random = self.random
        session = {"session_id": random.choice(self.names)}
        method, params = random.choice(
            [
                ("openenv/session/create", {}),
                ("openenv/session/close", session),
                ("tools/list", session),
                ("tools/call", {**session, **self.call()}),
                ("tools/call", self.call()),
                ("initialize", GREETING),
                ("prompts/list", {}),
                ("ping", {}),
            ]
        )
        return {"jsonrpc": "2.0", "id": random.randrange(99), "method": method, "params": params}

    def request(self) -> tuple[str, str, Any]:
        """Method, path and body of an HTTP request."""
        random = self.random
        session = {"session_id": random.choice(self.names)}
        name = random.choice(("a", "b", "c?seed=73", "x/y", "%ff", "a" * 99, "d?index=1&split=test", "e?split=%ed%a0%80"))
        return random.choice(
            [
                ("POST", "/reset", {}),
                ("POST", "/reset", {"seed": random.randrange(100), "index": 1}),
                ("POST", "/reset", session),
                ("POST", "/step", {**session, "action": self.call()}),
                ("POST", "/step", {**session, "action": self.call()}),
                ("POST", "/step", {**session, "action": json.dumps(self.call())}),
                ("POST", "/close", session),
                ("GET", f"/state?session_id={session['session_id']}", None),
                ("GET", random.choice(("/", "/health", "/schema", "/metadata", "/nothing", "/ws")), None),
                ("POST", "/mcp", self.rpc()),
                ("POST", f"/mcp/{name}", self.rpc()),
                ("DELETE", random.choice(("/mcp", "/mcp/a")), None),
                (random.choice(("GET", "DELETE", "PUT")), random.choice(("/reset", "/mcp/a/b", "/state", "/close")), None),
            ]
        )  # fmt: skip

    def headers(self, path: str) -> dict[str, str]:
        """Headers of a request: over MCP often those of a session of the protocol."""
        if not path.startswith("/mcp") or self.random.random() < 0.4:
            return {}
        return {MCP_SESSION: self.random.choice((*self.protocol_sessions, "x", "\u00e9" * 40))}

    def messages(self) -> list[str | bytes]:
        """Messages of one WebSocket."""
        kinds = [{"type": "reset", "data": {}}, {"type": "state"}, {"type": "close"}, *(None,) * 6]
        texts: list[str | bytes] = [json.dumps({"type": "reset", "data": {}})]
        for _ in range(self.random.randrange(1, 8)):
            call = self.call()
            step = {"type": "step", "data": self.random.choice((call, call, {"action": json.dumps(call)}, {"action": call}))}
            message = self.random.choice(kinds) or step
            raw = self.text(self.spoil(message))
            texts.append(raw if self.random.random() < 0.05 else raw.decode("utf-8", "replace"))
        return texts


async def play_honestly(service: Service, took_s: list[float], stop: asyncio.Event, think_s: float = 0.0) -> None:
    """Play episodes as a client should, until told to stop.

    Args:
        service: the service.
        took_s: receives how long each answer took, seconds.
        stop: set when to stop.
        think_s: how long the client thinks before each message, seconds.
    """
    while not stop.is_set():
        name, path, body = "", "/reset", dict[str, Any]()
        for turn in range(12):
            await asyncio.sleep(think_s)
            begin = time.perf_counter()
            status, text = await http(service, "POST", path, json.dumps(body).encode())
            took_s.append(time.perf_counter() - begin)
            if status != 200:
                break  # the attack has taken all places, or this one: begin again
            answer = json.loads(text)
            name = answer["metadata"]["session_id"]
            if answer["done"]:
                break
            path = "/step"
            body = {"session_id": name, "action": {"name": "wait", "arguments": {"seconds": 1 + turn}}}
        await http(service, "POST", "/close", json.dumps({"session_id": name}).encode())


class Attack:
    """An attack on a service whose life has begun.

    Args:
        service: the service.
        seed: keys all messages.

    Attributes:
        met: how often each answer came.
        wrong: what was wrong with answers, or with the service afterwards.
    """

    def __init__(self, service: Service, seed: int) -> None:
        self.service, self.attacker = service, Attacker(seed)
        self.met, self.wrong = Counter[str](), list[str]()
        probe = service.sessions.example.unwrapped
        probe.reset(seed=0)  # type: ignore[attr-defined]
        self.attacker.tools = [function["function"] for function in probe.documentation()]  # type: ignore[attr-defined]

    async def run(self, messages: int, connections: int = 1) -> None:
        """Wait for that many further answers, over so many connections at once."""
        until = self.met.total() + messages
        await asyncio.gather(*(self._connection(until) for _ in range(connections)))
        before = len(self.service.sessions)
        await socket(self.service, ['{"type": "reset"}'])
        if len(self.service.sessions) > before:
            self.wrong.append("a session outlives its WebSocket")

    async def _connection(self, until: int) -> None:
        attacker, service = self.attacker, self.service
        while self.met.total() < until:
            await asyncio.sleep(0)
            if attacker.random.random() < 0.3:
                spoken = attacker.messages()
                for answer in await socket(service, spoken):
                    self.met[f"socket {json.loads(answer)['type']}"] += 1
                    self._look("socket", spoken, answer)
                continue
            method, path, body = attacker.request()
            raw = b"" if body is None else attacker.text(attacker.spoil(body))
            headers = attacker.headers(path)
            status, answered, text = await request(service, method, path, raw, headers)
            self.met[f"{path.split('?')[0].split('/')[1][:6]} {status}"] += 1
            if status >= 500 and status not in (501, 503):
                self.wrong.append(f"{method} {path} {raw[:200]!r}: {status} {text[:200]}")
            self._look(f"{method} {path}", raw, text)
            if path.startswith("/reset") and status == 200:
                _remember(attacker.names, json.loads(text)["metadata"]["session_id"])
            if status == 404 and headers.get(MCP_SESSION) in attacker.protocol_sessions:
                attacker.protocol_sessions.remove(headers[MCP_SESSION])  # it has ended
            elif MCP_SESSION in answered:
                _remember(attacker.protocol_sessions, answered[MCP_SESSION])
            if len(service.sessions) >= service.limits.sessions - 2:
                for session in service.sessions:
                    service.sessions.close(session)

    def _look(self, what: str, action: Any, text: str) -> None:
        secret = secret_in(text)
        if secret:
            self.wrong.append(f"{what} {action!r:.300}: tells {secret!r}")
        if '"EXECUTION_ERROR"' in text and "failed" in text:
            self.wrong.append(f"{what} {action!r:.300}: {text[:200]}")
        tools = self.attacker.tools
        if len(tools) < 60 and '"functions"' in text:
            answer = json.loads(text)
            observation = answer.get("data", answer).get("observation", {})
            tools += [function["function"] for function in observation.get("functions", ())]


def _remember(names: list[str], name: str) -> None:
    """Add a name; the oldest of many is forgotten."""
    names.append(name)
    if len(names) > 40:
        del names[1]


async def attack(service: Service, messages: int, seed: int, connections: int = 1) -> tuple[Counter[str], list[str]]:
    """Send messages to a service.

    Args:
        service: the service.
        messages: how many answers to wait for.
        seed: keys all messages.
        connections: how many clients attack at once.

    Returns:
        How often each answer came, and what was wrong with answers or with the service afterwards.
    """
    async with service._life(None):  # type: ignore[arg-type]
        attacking = Attack(service, seed)
        await attacking.run(messages, connections)
    return attacking.met, attacking.wrong


async def open_and_close(service: Service, number: int) -> None:
    """Open a session, play one step and leave: by turns over a WebSocket, HTTP, and MCP with and without a name."""
    step = {"name": "wait", "arguments": {"seconds": 1}}
    if number % 3 == 0:
        answers = await socket(service, ['{"type": "reset"}', json.dumps({"type": "step", "data": step})])
        assert [json.loads(answer)["type"] for answer in answers] == ["observation", "observation"], answers
        return
    if number % 3 == 1:
        status, text = await http(service, "POST", "/reset", b"{}")
        assert status == 200, text
        name = json.loads(text)["metadata"]["session_id"]
        for path in ("/step", "/close"):
            status, text = await http(service, "POST", path, json.dumps({"session_id": name, "action": step}).encode())
            assert status == 200, text
        return
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    for rpc, params in (("initialize", GREETING), ("tools/call", {"name": "wait", "arguments": {"seconds": 1}})):
        content = json.dumps({"jsonrpc": "2.0", "id": 1, "method": rpc, "params": params}).encode()
        status, answered, text = await request(service, "POST", "/mcp", content, headers)
        assert status == 200 and "error" not in json.loads(text), text
        headers = {**headers, MCP_SESSION: answered.get(MCP_SESSION, headers.get(MCP_SESSION, ""))}
    status, _, text = await request(service, "DELETE", "/mcp", b"", headers)
    assert status == 200, text


if __name__ == "__main__":
    begin = time.perf_counter()
    report, faults = asyncio.run(attack(make_service(), int(sys.argv[1]), int(sys.argv[2])))
    print(f"{report.total()} messages in {time.perf_counter() - begin:.0f} s, {len(faults)} faults")
    print(*(f"{count:7d} {name}" for name, count in sorted(report.items())), *faults[:20], sep="\n")
