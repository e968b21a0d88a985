"""One server, many sessions: each as if it were alone, whatever the others send."""

import asyncio
import json
import select
import signal
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

pytest.importorskip("mcp", reason="the extra `serve` is not installed")
pytest.importorskip("starlette", reason="the extra `serve` is not installed")

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

import costgym
from costgym.experiments.serve.limits import Bucket, Limits, Refused
from costgym.experiments.serve.sessions import Sessions
from tests.helpers.served import ENV, differences, local_sessions, play_locally, replay, replay_all, served, served_here

WORLD = """\
name: small
failures: rapidapi-2023
source: {kind: marketplace, tools: 60, providers: 12, categories: 4, train: 10, test: 10, candidates: 8}
"""


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("world") / "small.yaml"
    path.write_text(WORLD)
    return path


@pytest.fixture(scope="module")
def address(scenario: Path) -> Iterator[str]:
    with served_here(scenario=str(scenario), max_steps=400) as server:
        yield server


@pytest.fixture(scope="module")
def strict(scenario: Path) -> Iterator[str]:
    """A server of narrow limits."""
    limits = Limits(sessions=2, idle_s=1.0, request_bytes=2000, rate=20, timeout_s=0.6)
    with served_here(scenario=str(scenario), limits=limits) as server:
        yield server


def http(address: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(address + path, data, {"Content-Type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def talk(address: str, *messages: str | bytes) -> list[dict[str, Any]]:
    """The answers to messages on one WebSocket."""

    async def run() -> list[dict[str, Any]]:
        from websockets.asyncio.client import connect

        answers = []
        async with connect(address.replace("http", "ws") + "/ws", max_size=None) as socket:
            for message in messages:
                await socket.send(message)
                answers.append(json.loads(await asyncio.wait_for(socket.recv(), 10)))
        return answers

    return asyncio.run(run())


# -- sessions -------------------------------------------------------------------------------------------------------------


def test_concurrent_sessions_are_each_the_session_played_locally(address: str, scenario: Path) -> None:
    sessions = local_sessions(16, 40, scenario=str(scenario), split="test", max_steps=400)
    seconds, different = asyncio.run(replay_all(address, sessions))
    assert (len(seconds), different) == (16 * 40, [])


def test_tasks_that_change_the_world_are_served_with_their_figures() -> None:
    sessions = local_sessions(4, 40, scenario="marketplace-writes", split="test", max_steps=400)
    with served_here(scenario="marketplace-writes", max_steps=400) as address:
        seconds, different = asyncio.run(replay_all(address, sessions))
    assert (len(seconds), different) == (4 * 40, [])
    text = json.dumps([exchange.answer for exchanges in sessions for exchange in exchanges if exchange.answer["done"]])
    assert '"state_correct"' in text and '"money_lost"' in text


@pytest.mark.slow
def test_64_sessions_of_200_steps_do_not_leak_into_each_other(address: str, scenario: Path) -> None:
    sessions = local_sessions(64, 200, scenario=str(scenario), split="test", max_steps=400)
    seconds, different = asyncio.run(replay_all(address, sessions))
    assert (len(seconds), different) == (64 * 200, [])


def test_a_session_that_differs_is_noticed(address: str, scenario: Path) -> None:
    (exchanges,) = local_sessions(1, 5, scenario=str(scenario), split="test", max_steps=400)
    _, answers = asyncio.run(replay(address, exchanges))
    changed = [exchange._replace(answer={**exchange.answer, "reward": 12.0}) for exchange in exchanges]
    assert differences(exchanges, answers) == []
    assert len(differences(changed, answers)) == len(exchanges)


def test_over_http_a_session_is_named_by_its_id(address: str) -> None:
    status, first = http(address, "/reset", {"seed": 7, "episode_id": "mine"})
    name = first["metadata"]["session_id"]
    assert (status, first["done"], first["reward"], first["metadata"]["episode_id"]) == (200, False, None, "mine")
    assert {"text", "functions", "prices"} == set(first["observation"])
    assert http(address, "/step", {"action": {"name": "wait"}, "session_id": name})[1]["observation"] == {
        "text": '{"waited_s": 0.0}'
    }
    status, state = http(address, f"/state?session_id={name}")
    assert (status, state["step_count"], "seed" in state, state["episode_id"]) == (200, 1, False, "mine")
    again = http(address, "/reset", {"seed": 7})[1]
    assert again["observation"] == first["observation"] and again["metadata"]["session_id"] != name
    assert http(address, "/close", {"session_id": name}) == (200, {"session_id": name, "closed": True})
    assert http(address, "/step", {"action": {"name": "wait"}, "session_id": name})[0] == 404


def test_what_is_to_be_known_about_the_environment(address: str) -> None:
    assert http(address, "/health")[1]["status"] == "healthy"
    schema = http(address, "/schema")[1]
    assert schema["observation"]["properties"] == {"text": {"type": "string"}}
    assert {"action", "observation", "state", "reset_observation"} == set(schema)
    assert http(address, "/metadata")[1]["name"] == "MarketplaceChat"
    begun = http(address, "/reset", {"split": "train", "index": 3})
    assert begun[0] == 200 and http(address, f"/state?session_id={begun[1]['metadata']['session_id']}")[1]["number"] is not None
    assert http(address, "/reset", {"split": "train", "index": 10})[0] == 422


def test_a_numeric_environment_is_served_too() -> None:
    with served_here("costgym/OpenCATPCalls-v0", tasks="all") as address:
        schema = http(address, "/schema")[1]
        assert schema["action"]["properties"]["action"]["type"] == "integer"
        first, second = talk(
            address,
            '{"type": "reset", "data": {"seed": 3}}',
            json.dumps({"type": "step", "data": {"action": schema["action"]["properties"]["action"]["maximum"]}}),
        )
        local = costgym.make("costgym/OpenCATPCalls-v0", split="test", tasks="all", disable_env_checker=True)
        observation, _ = local.reset(seed=3)
        assert {name: values.tolist() for name, values in observation.items()} == first["data"]["observation"]
        wrong = talk(address, '{"type": "reset"}', '{"type": "step", "data": {"action": -1}}')[1]
        assert (second["type"], wrong["data"]["code"]) == ("observation", "VALIDATION_ERROR")


# -- what clients do wrong ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("{", "INVALID_JSON"),
        ("[1]", "INVALID_JSON"),
        (b"\x00\xff", "INVALID_JSON"),
        ("[" * 5000, "INVALID_JSON"),
        ('{"type": "fly"}', "UNKNOWN_TYPE"),
        ('{"type": ["reset"]}', "UNKNOWN_TYPE"),
        ('{"type": "reset", "data": 3}', "VALIDATION_ERROR"),
        ('{"type": "reset", "data": {"seed": -1}}', "VALIDATION_ERROR"),
        ('{"type": "reset", "data": {"seed": NaN}}', "VALIDATION_ERROR"),
        ('{"type": "reset", "data": {"seed": 99999999999999999999}}', "VALIDATION_ERROR"),
        ('{"type": "reset", "data": {"task": "no such"}}', "VALIDATION_ERROR"),
        ('{"type": "reset", "data": {"task": 10000000}}', "VALIDATION_ERROR"),
        ('{"type": "reset", "data": {"index": 99, "split": "test"}}', "VALIDATION_ERROR"),
        ('{"type": "reset", "data": {"index": 0, "split": "../x"}}', "VALIDATION_ERROR"),
        ('{"type": "reset", "data": {"sede": 7}}', "VALIDATION_ERROR"),
        ('{"type": "step", "data": {}}', "EXECUTION_ERROR"),
    ],
)
def test_a_wrong_message_is_answered_and_the_session_goes_on(address: str, message: str | bytes, code: str) -> None:
    error, well = talk(address, message, '{"type": "reset", "data": {"seed": 1}}')
    assert (error["type"], error["data"]["code"]) == ("error", code)
    assert well["type"] == "observation"


def test_openenvs_form_of_a_call_is_understood_and_a_failing_environment_ends_no_session(scenario: Path) -> None:
    from costgym.experiments.serve.openenv import OpenEnv

    settings = {"scenario": str(scenario), "split": "test", "disable_env_checker": True}
    sessions = Sessions(lambda: costgym.make(ENV, **settings), Limits(), 0, lambda: 0.0)
    routes, session = OpenEnv(sessions, ENV, ""), sessions.open()

    def say(kind: str, data: dict[str, Any]) -> Any:
        return json.loads(routes._respond(session, json.dumps({"type": kind, "data": data})) or "")

    say("reset", {})
    done = say("step", {"type": "call_tool", "tool_name": "nothing", "arguments": {}, "metadata": {}})
    assert "unknown_tool" in done["data"]["observation"]["text"]
    step, session.env.step = session.env.step, lambda action: 1 / 0  # type: ignore[assignment, method-assign]
    assert say("step", {"name": "wait"})["data"]["code"] == "EXECUTION_ERROR"
    session.env.step = step  # type: ignore[method-assign]
    assert say("step", {"name": "wait"})["type"] == "observation"


def test_after_the_end_only_a_reset_helps(address: str) -> None:
    finish = '{"type": "step", "data": {"name": "finish", "arguments": {"answer": ""}}}'
    answers = talk(address, '{"type": "reset"}', finish, finish, '{"type": "reset"}')
    assert [answer["type"] for answer in answers] == ["observation", "observation", "error", "observation"]
    assert answers[1]["data"]["done"] and "ended" in answers[2]["data"]["message"]


@pytest.mark.parametrize(
    ("body", "status"), [(b"{", 400), (b"[]", 400), (b'{"seed": "x"}', 422), (b'{"session_id": "x"}', 404)]
)
def test_a_wrong_http_request_is_told_why(address: str, body: bytes, status: int) -> None:
    response, answer = http(address, "/reset", body)
    assert (response, bool(answer["detail"])) == (status, True)


def test_an_unknown_field_of_a_reset_is_refused_with_the_known_ones(address: str) -> None:
    status, answer = http(address, "/reset", {"sede": 7})
    known = "episode_id, index, seed, session_id, split, task"
    assert (status, answer["detail"]) == (
        422,
        f"unknown field of reset 'sede'; nearest: seed; known: {known}",
    )


def test_other_hosts_and_origins_are_not_answered(address: str) -> None:
    assert http(address, "/health", None, Host="evil.example")[0] == 403
    assert http(address, "/health", None, Origin="http://evil.example")[0] == 403
    assert http(address, "/health", None, Origin="http://localhost:3000")[0] == 200


def test_oversized_requests_are_refused_and_nobody_else_notices(strict: str) -> None:
    from websockets.exceptions import ConnectionClosed

    async def run() -> int:
        from websockets.asyncio.client import connect

        url = strict.replace("http", "ws") + "/ws"
        async with connect(url) as quiet, connect(url) as loud:
            await quiet.send('{"type": "reset", "data": {"seed": 1}}')
            await quiet.recv()
            await loud.send("x" * 5000)
            with pytest.raises(ConnectionClosed) as closed:
                await asyncio.wait_for(loud.recv(), 5)
            await quiet.send('{"type": "step", "data": {"name": "wait"}}')
            assert json.loads(await quiet.recv())["type"] == "observation"
            assert closed.value.rcvd is not None
            return closed.value.rcvd.code

    assert asyncio.run(run()) == 1009
    assert http(strict, "/reset", {"x": "y" * 5000})[0] == 413
    assert http(strict, "/mcp", {"x": "y" * 5000})[0] == 413


def test_clients_that_dawdle_are_cut_off(strict: str) -> None:
    url, since = urlsplit(strict), time.monotonic()
    beginnings = (b"GET /health HT", b"POST /reset HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{", b"")
    with ExitStack() as clients:
        slow = [clients.enter_context(socket.create_connection((url.hostname, url.port), timeout=8)) for _ in beginnings]
        for client, begin in zip(slow, beginnings, strict=True):
            client.sendall(begin)
        for client in slow:
            answer = b""
            with suppress(ConnectionResetError):
                while part := client.recv(4096):
                    answer += part
            assert answer == b"" or b" 408 " in answer
    assert time.monotonic() - since < 6
    assert http(strict, "/health")[0] == 200


def test_a_client_that_does_not_read_is_cut_off(strict: str) -> None:
    url = urlsplit(strict)
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        deaf.connect((url.hostname, url.port))
        deaf.settimeout(15)
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            for _ in range(200_000):
                deaf.sendall(b"GET /schema HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert http(strict, "/health")[0] == 200


def test_there_are_only_so_many_sessions_and_idle_ones_make_room(strict: str) -> None:
    deadline = time.monotonic() + 10
    while http(strict, "/health")[1]["sessions"] and time.monotonic() < deadline:
        time.sleep(0.1)
    names = [http(strict, "/reset", {})[1]["metadata"]["session_id"] for _ in range(2)]
    status, answer = http(strict, "/reset", {})
    assert (status, answer["code"]) == (503, "CAPACITY_REACHED")
    assert talk_first(strict)["data"]["code"] == "CAPACITY_REACHED"
    while http(strict, "/health")[1]["sessions"] and time.monotonic() < deadline:
        time.sleep(0.1)
    assert http(strict, "/state?session_id=" + names[0])[0] == 404
    assert http(strict, "/reset", {})[0] == 200


def talk_first(address: str) -> dict[str, Any]:
    """What a server says of its own accord."""

    async def run() -> dict[str, Any]:
        from websockets.asyncio.client import connect

        async with connect(address.replace("http", "ws") + "/ws") as socket:
            document: dict[str, Any] = json.loads(await asyncio.wait_for(socket.recv(), 5))
            return document

    return asyncio.run(run())


def test_a_hasty_client_is_told_so_and_goes_on(strict: str) -> None:
    deadline = time.monotonic() + 10
    while http(strict, "/health")[1]["sessions"] > 1 and time.monotonic() < deadline:
        time.sleep(0.1)
    answers = talk(strict, '{"type": "reset"}', *['{"type": "state"}'] * 60)
    codes = {answer["data"].get("code") for answer in answers if answer["type"] == "error"}
    assert codes == {"RATE_LIMITED"} and sum(answer["type"] == "state" for answer in answers) >= 19


def test_a_body_that_grows_without_saying_so_is_cut_off(strict: str) -> None:
    url = urlsplit(strict)
    with socket.create_connection((url.hostname, url.port), timeout=8) as loud:
        loud.sendall(b"POST /reset HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        loud.sendall(b"fa0\r\n" + b"x" * 4000 + b"\r\n")
        assert b" 413 " in loud.recv(4096)
    assert http(strict, "/health")[0] == 200


def test_a_client_that_is_too_fast_is_told_when_to_come_back() -> None:
    bucket = Bucket(2.0, now=0.0)
    assert [bucket.take(0.0), bucket.take(0.0), bucket.take(0.0), bucket.take(0.25), bucket.take(0.5)] == [0, 0, 0.5, 0.25, 0]


def test_an_idle_session_is_reaped_by_the_clock() -> None:
    now = [0.0]
    limits = Limits(sessions=2, idle_s=10.0)
    sessions = Sessions(lambda: costgym.make(ENV, disable_env_checker=True), limits, 0, lambda: now[0])
    old, _ = sessions.open(), now.__setitem__(0, 6.0)
    new = sessions.open()
    with pytest.raises(Refused, match="all 2 sessions are taken"):
        sessions.open()
    now[0] = 11.0
    assert asyncio.run(sessions.reap()) == 1
    assert (sessions.find(old.name), sessions.find(new.name)) == (None, new)


def test_sessions_without_a_seed_count_up_from_the_servers() -> None:
    sessions = Sessions(lambda: costgym.make(ENV, disable_env_checker=True), Limits(), 5, lambda: 0.0)
    seeds = []
    for _ in range(2):
        session = sessions.open()
        session.reset({})
        seeds.append(session.env.unwrapped.episode.seed)  # type: ignore[attr-defined]
        assert "seed" not in session.state()
    assert seeds == [5, 6]
    assert play_locally(sessions, 3, 10) == play_locally(sessions, 3, 10)


# -- MCP ------------------------------------------------------------------------------------------------------------------


async def visit(target: Any, mode: str = "auto") -> tuple[list[Any], list[Any], str]:
    async with Client(target, mode=mode) as client:
        tools = (await client.list_tools()).tools
        requests = [("task", {}), (tools[0].name, {"no_such": 1}), ("not_there", {}), ("wait", {"seconds": 2}), ("budget", {})]
        results = [await client.call_tool(name, arguments) for name, arguments in requests]
        results.append(await client.call_tool("finish", {"answer": "nothing"}))
        results.append(await client.call_tool("wait", {"seconds": 1}))
        return tools, results, (await client.get_prompt("task")).messages[0].content.text


@pytest.mark.parametrize(
    ("path", "mode"), [("/mcp", "auto"), ("/mcp", "legacy"), ("/mcp/{}?seed=3", "auto"), ("/mcp/{}", "legacy")]
)
def test_an_mcp_client_meets_priced_failing_tools(address: str, path: str, mode: str) -> None:
    tools, results, query = asyncio.run(visit(address + path.format(f"visit-{mode}"), mode))
    assert [tool.name for tool in tools[-4:]] == ["task", "budget", "wait", "finish"]
    assert all("Price: " in tool.description and tool.input_schema["type"] == "object" for tool in tools[:-4])
    task, wrong, unknown, waited, budget, finished, late = results
    assert task.content[0].text.startswith(f"{query}\n\n[") and len(task.content) == 1
    assert [result.is_error for result in results] == [False, True, True, False, False, False, True]
    assert (wrong.structured_content["status"], unknown.structured_content["status"]) == ("invalid_arguments", "unknown_tool")
    assert waited.structured_content["seconds"] > 2 and budget.structured_content["left_price"] == 20
    assert finished.structured_content["episode_over"] and not finished.structured_content["passed"]
    assert "ended" in late.content[0].text


def test_an_mcp_session_is_the_episode_of_the_text_environment(address: str, scenario: Path) -> None:
    env = costgym.make(ENV, scenario=str(scenario), split="test", max_steps=400, disable_env_checker=True)
    query, _ = env.reset(seed=11)
    world: Any = env.unwrapped
    slot = next(slot for slot in world.episode.candidates if slot.need >= 0 and not world.episode.needs[slot.need].after)
    arguments = dict(world.episode.needs[slot.need].arguments)
    texts = [env.step(json.dumps({"name": slot.name, "arguments": arguments}))[0] for _ in range(4)]

    async def run() -> tuple[str, list[str], Any]:
        async with Client(address + "/mcp/eleven?seed=11") as client:
            answer = await client.call_tool("task", {})
            answers = [await client.call_tool(slot.name, arguments) for _ in range(4)]
            texts = [result.content[0].text.rpartition("\n\n[")[0] for result in (answer, *answers)]
            return texts[0], texts[1:], answers[-1].structured_content

    outcomes, outcome, figures = asyncio.run(run())
    assert (outcomes, outcome) == (query, texts)
    assert figures["spent_price"] == world.episode.ledger.price and figures["at_s"] == world.episode.now_s


def test_openenvs_tool_clients_share_a_session_between_http_and_websocket(address: str) -> None:
    def rpc(method: str, **params: Any) -> Any:
        return http(address, "/mcp", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params})[1]

    async def attached(name: str) -> list[Any]:
        from websockets.asyncio.client import connect

        url = address.replace("http", "ws") + f"/ws?session_id={name}"
        async with connect(url) as socket, connect(url) as second:
            refused = json.loads(await second.recv())
            await socket.send('{"type": "reset", "data": {"seed": 9}}')
            return [refused, json.loads(await socket.recv())]

    name = rpc("openenv/session/create")["result"]["session_id"]
    refused, begun = asyncio.run(attached(name))
    assert (refused["data"]["code"], begun["type"]) == ("SESSION_ERROR", "observation")
    tools = rpc("tools/list", session_id=name)["result"]["tools"]
    assert {"name", "description", "inputSchema"} <= set(tools[0])
    task = rpc("tools/call", session_id=name, name="task", arguments={})["result"]
    assert task["content"][0]["text"].startswith(begun["data"]["observation"]["text"] + "\n\n[")
    assert "error" in rpc("tools/call", session_id=name, name=3, arguments={})
    assert rpc("openenv/session/close", session_id=name)["result"] == {"session_id": name, "closed": True}
    assert "no such session" in rpc("tools/list", session_id=name)["error"]["message"]


def test_a_named_session_cannot_be_taken_over_with_other_wishes(address: str) -> None:
    async def ask(url: str) -> Any:
        async with Client(address + url) as client:
            await client.list_tools()
            return [(await client.call_tool(name, values)).content[0].text for name, values in (("task", {}), ("no", {}))]

    answers = [asyncio.run(ask("/mcp/carol?seed=4"))[0] for _ in range(2)]
    assert ["unfinished: 1 steps were played" in text for text in answers] == [False, True]
    for url in ("/mcp/carol?seed=5", "/mcp/dave?index=9999", "/mcp/dave?seed=x", "/mcp/da%20ve"):
        with pytest.raises(Exception):  # noqa: B017 - the SDK wraps errors in groups
            asyncio.run(ask(url))
    assert http(address, "/health")[0] == 200


def test_mcp_over_standard_input_and_output(scenario: Path) -> None:
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "costgym", "serve", "--stdio", "--env", ENV, "--scenario", str(scenario)]
    )
    tools, results, query = asyncio.run(visit(stdio_client(server)))
    assert (len(tools), results[0].content[0].text.rpartition("\n\n[")[0]) == (12, query)


# -- the process ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_signal_ends_the_server_cleanly_though_sessions_are_open(scenario: Path, number: signal.Signals) -> None:
    """And the options of the command are those of the server in this process."""
    (exchanges,) = local_sessions(1, 20, scenario=str(scenario), split="test", max_steps=400)
    with served("--env", ENV, "--scenario", scenario, "--sessions", 1) as (address, process):
        assert differences(exchanges, asyncio.run(replay(address, exchanges))[1]) == []

        async def run() -> int:
            from websockets.asyncio.client import connect
            from websockets.exceptions import ConnectionClosed

            async with connect(address.replace("http", "ws") + "/ws") as socket:
                await socket.send('{"type": "reset"}')
                await socket.recv()
                assert (await asyncio.to_thread(http, address, "/reset", {}))[0] == 503
                process.send_signal(number)
                with pytest.raises(ConnectionClosed) as closed:
                    await asyncio.wait_for(socket.recv(), 10)
                assert closed.value.rcvd is not None
                return closed.value.rcvd.code

        assert asyncio.run(run()) == 1012
        assert process.wait(15) == 0
        assert process.stderr is not None and "Traceback" not in process.stderr.read()


def test_openenvs_validator_finds_what_it_looks_for(address: str) -> None:
    status, document = http(address, "/openapi.json")
    assert status == 200 and document["info"]["version"].startswith("1.")
    assert {"/reset", "/step", "/state"} <= set(document["paths"])
    assert document["paths"]["/step"]["post"]["requestBody"]["content"]["application/json"]["schema"]["properties"]["action"]
    status, answer = http(address, "/mcp", {})
    assert status == 200 and answer["jsonrpc"] == "2.0" and answer["error"]["code"] == -32600


def test_silent_connections_of_one_address_leave_room_for_others() -> None:
    with served_here(limits=Limits(sessions=4, client_connections=10)) as address, ExitStack() as held:
        url = urlsplit(address)

        def silent() -> socket.socket:
            return held.enter_context(socket.create_connection((url.hostname, url.port), timeout=5))

        def answers(connection: socket.socket) -> bool:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            return b" 200 " in connection.recv(4096)

        first, *others, eleventh, twelfth = [silent() for _ in range(12)]
        for refused in (eleventh, twelfth):
            with suppress(ConnectionResetError):
                assert refused.recv(1) == b""
        assert select.select([first, *others], [], [], 0.2)[0] == []
        with socket.socket() as other:
            other.bind(("127.0.0.2", 0))
            other.settimeout(5)
            other.connect((url.hostname, url.port))
            assert answers(other)
        first.close()
        time.sleep(0.1)
        assert answers(silent())  # a place of its own is free again
