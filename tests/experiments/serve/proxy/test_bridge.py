"""The proxy between MCP clients and servers that exist."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the extra `serve` is not installed")

import anyio
from mcp.client.client import Client
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError
from mcp.shared.memory import create_client_server_memory_streams

from costgym.experiments.serve.proxy.call_log import CallLog, read_runs
from costgym.experiments.serve.proxy.serve import LIMITS, Proxy, application
from costgym.experiments.serve.proxy.session import Settings
from costgym.simulators.errors import DataError
from costgym.simulators.ledger import Budget
from costgym.simulators.scenario import parse_scenario
from tests.helpers.attack import GREETING, http
from tests.helpers.command_line import invoke
from tests.helpers.real_tools import Tools, through
from tests.helpers.served import listening

ROOT = Path(__file__).parents[4]
SERVER = (sys.executable, "-m", "tests.helpers.real_tools")


def play(proxy: Proxy, script: Callable[[ClientSession], Awaitable[Any]], tools: Tools | None = None) -> Any:
    async def run() -> Any:
        async with through(proxy, tools or Tools()) as client:
            return await script(client)

    return anyio.run(run)


def proxy(scenario: str | None = "storm", log: Path | None = None, **others: Any) -> Proxy:
    about = {name: others.pop(name) for name in ("timeout_s", "tells") if name in others}
    settings = {"scenario": scenario, "budget": Budget(), "time_scale": 0.0, "clock": "calls", "log": log, **others}
    return Proxy(("abacus",), Settings(**settings), **about)


async def add_often(client: ClientSession, times: int = 40) -> list[tuple[str, bool, str]]:
    replies = []
    for number in range(times):
        result = await client.call_tool("add", {"a": number, "b": 1})
        replies.append((result.meta["costgym/status"], result.is_error, result.content[0].text))
    return replies


def test_without_a_scenario_everything_goes_through_and_is_noted(tmp_path: Path) -> None:
    async def script(client: ClientSession) -> None:
        (listed, *_) = (await client.list_tools()).tools
        assert (listed.name, listed.description, listed.output_schema is None) == ("add", "Adds.", False)
        result = await client.call_tool("add", {"a": 1, "b": 2})
        assert (result.is_error, result.structured_content, result.meta) == (False, {"sum": 3}, None)
        failed = await client.call_tool("fail", {})
        assert (failed.is_error, failed.content[0].text) == (True, "404: no such number")

    play(proxy(None, tmp_path / "calls.jsonl"), script)
    (run,) = read_runs([tmp_path / "calls.jsonl"])
    assert [(call["tool"], call["status"], call["imposed"]) for call in run.calls] == [
        ("add", "ok", "ok"),
        ("fail", "not_found", "ok"),
    ]
    assert run.settings["server"] == "abacus" and run.reason is not None


def test_the_same_faults_twice_and_others_with_another_seed() -> None:
    runs = [play(proxy("silent", seed=seed), add_often) for seed in (3, 3, 4)]
    assert runs[0] == runs[1] != runs[2]
    assert {failed for _, failed, _ in runs[0]} == {True, False}


def test_prices_are_told_and_charged() -> None:
    async def script(client: ClientSession) -> None:
        (listed, *_) = (await client.list_tools()).tools
        assert listed.description == "Adds. Price: 3 a call." and listed.meta == {"costgym/price": 3.0}
        results = [await client.call_tool("add", {"a": 1, "b": 2}) for _ in range(2)]
        assert [result.is_error for result in results] == [False, True]
        assert results[0].meta == {"costgym/price": 3.0, "costgym/status": "ok", "costgym/left_price": 2.0}
        assert results[0].content[-1].text == "[price 3; left price 2]"
        assert "does not cover this call" in results[1].content[0].text
        assert results[1].meta["costgym/left_price"] == 2.0  # nothing is overdrawn

    play(proxy(None, prices={"add": 3.0}, budget=Budget(price=5), tells=True), script)


def test_a_call_that_the_world_fails_does_not_reach_the_server(tmp_path: Path) -> None:
    tools, log = Tools(), tmp_path / "calls.jsonl"
    for seed in range(4):
        play(proxy("storm", log, seed=seed), add_often, tools)
    statuses = [call["status"] for run in read_runs([log]) for call in run.calls]
    assert 0 < len(tools.calls) == statuses.count("ok") < len(statuses)


def test_a_silent_fault_is_not_told(tmp_path: Path) -> None:
    log = tmp_path / "calls.jsonl"
    replies = [reply for seed in range(6) for reply in play(proxy("silent", log, seed=seed), add_often)]
    noted = [call["status"] for run in read_runs([log]) for call in run.calls]
    assert {"partial", "corrupt", "drifted"} & set(noted)
    assert not {"partial", "corrupt", "drifted", "empty", "irrelevant"} & {status for status, _, _ in replies}


def test_calls_that_overlap_are_each_answered() -> None:
    async def script(client: ClientSession) -> None:
        async def one(number: int) -> None:
            replies[number] = (await client.call_tool("add", {"a": number, "b": 0})).structured_content

        replies: dict[int, Any] = {}
        async with anyio.create_task_group() as group:
            for number in range(30):
                group.start_soon(one, number)
        assert replies == {number: {"sum": number} for number in range(30)}

    play(proxy(None), script)


def test_a_server_that_is_too_slow_is_a_timeout_and_the_next_call_goes_on(tmp_path: Path) -> None:
    async def script(client: ClientSession) -> None:
        late = await client.call_tool("sleep", {})
        assert late.is_error and json.loads(late.content[0].text)["error"] == "timeout"
        assert not (await client.call_tool("add", {"a": 1, "b": 1})).is_error

    play(proxy(None, tmp_path / "calls.jsonl", timeout_s=0.05), script)
    (run,) = read_runs([tmp_path / "calls.jsonl"])
    assert [call["status"] for call in run.calls] == ["timeout", "ok"]


def test_a_call_that_the_client_gives_up_is_noted(tmp_path: Path) -> None:
    async def script(client: ClientSession) -> None:
        with pytest.raises(MCPError):
            await client.call_tool("sleep", {}, read_timeout_seconds=0.05)
        await client.call_tool("add", {"a": 1, "b": 1})

    play(proxy(None, tmp_path / "calls.jsonl"), script)
    (run,) = read_runs([tmp_path / "calls.jsonl"])
    assert sorted(call["status"] for call in run.calls) == ["cancelled", "ok"]


def test_what_the_proxy_cannot_do_is_told_to_the_client() -> None:
    async def script(client: ClientSession) -> None:
        with pytest.raises(MCPError, match="unknown tool 'nope'"):
            await client.list_tools()
        with pytest.raises(MCPError, match="the proxy cannot go on: "):
            await client.call_tool("add", {"a": 1, "b": 1})

    play(proxy(None, prices={"nope": 1.0}), script)


def test_a_log_that_cannot_be_written_stops_the_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def script(client: ClientSession) -> None:
        assert not (await client.call_tool("add", {"a": 1, "b": 1})).is_error
        monkeypatch.setattr(CallLog, "write", full)
        for _ in range(2):
            with pytest.raises(MCPError, match="cannot be written: No space left"):
                await client.call_tool("add", {"a": 1, "b": 1})
        monkeypatch.undo()

    def full(log: CallLog, record: object) -> None:
        raise DataError(log.path, "cannot be written: No space left on device")

    play(proxy(None, tmp_path / "calls.jsonl"), script)
    assert len(read_runs([tmp_path / "calls.jsonl"])[0].calls) == 1


def test_a_log_in_a_place_that_is_none_is_told(tmp_path: Path) -> None:
    async def script(client: ClientSession) -> None:
        with pytest.raises(MCPError, match="cannot be written"):
            await client.call_tool("add", {"a": 1, "b": 1})

    (tmp_path / "file").write_text("")
    play(proxy(None, tmp_path / "file" / "calls.jsonl"), script)


def test_a_server_that_dies_costs_its_own_call_and_nothing_else(tmp_path: Path) -> None:
    log = tmp_path / "calls.jsonl"

    async def run() -> None:
        options = ["--log", str(log), "--run", "mortal", "--time-scale", "1"]
        command = StdioServerParameters(
            command=sys.executable, args=["-m", "costgym", "proxy", *options, "--", *SERVER], cwd=ROOT
        )
        async with stdio_client(command) as streams, ClientSession(*streams) as client:
            await client.initialize()
            assert not (await client.call_tool("add", {"a": 1, "b": 1})).is_error
            for _ in range(2):  # while it dies, and after
                lost = await client.call_tool("die", {})
                assert lost.is_error and json.loads(lost.content[0].text)["error"] == "connection_error"
            with pytest.raises(MCPError, match="the server has ended"):
                await client.list_prompts()

    anyio.run(run)
    (runs,) = read_runs([log])
    assert [call["status"] for call in runs.calls] == ["ok", "connection_error", "connection_error"]
    assert (runs.name, runs.reason) == ("mortal", "the client closed the connection; the server had ended")


@pytest.mark.slow
def test_over_http_each_session_is_a_run(tmp_path: Path) -> None:
    log = tmp_path / "calls.jsonl"
    options = ("--port", 0, "--scenario", "storm", "--time-scale", 0, "--log", log, "--run", "r")
    with listening("proxy", *options, "--", *SERVER, says="proxy at ") as (address, _):

        async def run() -> None:
            for wish in ("", "?seed=9&task=sums", ""):
                async with Client(f"{address}{wish}") as client:
                    for _ in range(12):
                        await client.call_tool("add", {"a": 1, "b": 1})

        anyio.run(run)
    first, second, third = ([(call["status"], call["price"]) for call in run.calls] for run in read_runs([log]) if run.calls)
    assert first == third != second
    assert [(run.name, run.settings["seed"], run.settings["task"]) for run in read_runs([log])] == [
        ("r", 0, None),
        ("r-2", 9, "sums"),
        ("r-3", 0, None),
    ]


def test_a_server_at_an_address_is_reached_and_its_loss_is_told(tmp_path: Path) -> None:
    log = tmp_path / "calls.jsonl"
    with listening("proxy", "--port", 0, "--", *SERVER, says="proxy at ") as (address, process):
        target = (f"{address}?key=sk-hidden",)
        between = Proxy(target, Settings(time_scale=0.0, clock="calls", log=log, prices={"add": 2.0}))

        async def run() -> None:
            async with (
                between.connect() as back,
                create_client_server_memory_streams() as (streams, front),
                anyio.create_task_group() as group,
            ):
                group.start_soon(between.bridge(front, back).run)
                async with ClientSession(*streams) as client:
                    assert (await client.initialize()).server_info.name == "abacus"
                    reply = await client.call_tool("add", {"a": 1, "b": 1})
                    assert (reply.structured_content, reply.meta["costgym/price"]) == ({"sum": 2}, 2.0)
                    process.kill()
                    process.wait(20)
                    lost = await client.call_tool("add", {"a": 1, "b": 1})
                    assert lost.is_error and "cannot be reached" in lost.content[0].text
                await streams[1].aclose()
                group.cancel_scope.cancel()

        anyio.run(run)
    (runs,) = read_runs([log])
    assert [call["status"] for call in runs.calls] == ["ok", "connection_error"]
    assert "sk-hidden" not in log.read_text()


def test_options_that_cannot_be_are_named() -> None:
    for options, word in (
        (["--budget", "price=1,2"], "--budget"),
        (["--enforcement", "sometimes"], "--enforcement"),
        (["--price", "nothing"], "--price"),
        (["--timeout", "0"], "--timeout"),
        (["--clock", "wall", "--time-scale", "0"], "--time-scale"),
        (["--scenario", "nowhere"], "nowhere"),
    ):
        done = invoke("proxy", *options, "--", "true")
        assert done.exit_code == 2 and word in done.stderr
    assert "no-such-command cannot be started" in invoke("proxy", "--", "no-such-command").stderr


def test_a_request_is_checked_before_a_server_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = tmp_path / "started"
    app = SimpleNamespace(app=application(Proxy(("touch", str(started)))))
    ours = {"host": "127.0.0.1:8000"}
    evil = {**ours, "origin": "http://evil.example"}
    status, response = asyncio.run(http(app, "POST", "/mcp", b"{}", **evil))
    assert status == 403 and "origin" in response
    assert asyncio.run(http(app, "POST", "/mcp", b"{}", host="evil.example"))[0] == 403
    assert asyncio.run(http(app, "POST", "/mcp", b" " * (LIMITS.request_bytes + 1), **ours))[0] == 413
    greeting = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": GREETING}
    good = json.dumps(greeting).encode()
    garbage = (
        b"", b"{}", b"null", b"[]", b"\xff", b"[" * 100_000, json.dumps([greeting]).encode(), good[:-1],
        *(json.dumps({**greeting, key: value}).encode() for key in greeting for value in (None, {}, [], 7.5)),
    )  # fmt: skip
    for body in garbage:
        assert asyncio.run(http(app, "POST", "/mcp", body, **ours))[0] == 400, body
    for method in ("GET", "DELETE", "PUT", "HEAD", "PATCH"):
        assert asyncio.run(http(app, method, "/mcp", good, **ours))[0] in (400, 405)
    for name, value in (("content-type", "text/plain"), ("accept", "text/html"), ("mcp-session-id", "x")):
        assert asyncio.run(http(app, "POST", "/mcp", good, **ours, **{name: value}))[0] in (400, 404)
    monkeypatch.setattr("costgym.experiments.serve.proxy.serve.Endpoint.open_sessions", LIMITS.sessions)
    status, response = asyncio.run(http(app, "POST", "/mcp", good, **ours))
    assert status == 503 and "64 sessions are open" in response
    assert not started.exists()


def test_a_client_is_told_when_prices_change_and_reads_the_new_ones() -> None:
    document = {
        "name": "dearer",
        "failures": "reliable",
        "events": [{"at_s": 5.0, "kind": "price_change", "factor": 2.0}],
        "source": {
            "kind": "own",
            "tools": [{"name": "add", "profile": {"fee": 4.0, "latency_s": 3.0}}],
            "tasks": [{"query": "?", "needs": [{"capability": "add", "fact": "x"}]}],
        },
    }
    changes: list[str] = []

    async def run() -> tuple[list[str], list[float], list[int]]:
        async def note(message: Any) -> None:
            changes.append(getattr(message, "method", ""))

        described, charged, notices = [], [], []
        async with through(proxy(parse_scenario(document)), Tools(), note) as client:
            for _ in range(5):
                described.append((await client.list_tools()).tools[0].description)
                charged.append((await client.call_tool("add", {"a": 1, "b": 1})).meta["costgym/price"])
                notices.append(changes.count("notifications/tools/list_changed"))
        return described, charged, notices

    described, charged, heard = anyio.run(run)
    assert described == ["Adds. Price: 4 a call."] * 2 + ["Adds. Price: 8 a call."] * 3
    assert charged == [4.0, 4.0, 8.0, 8.0, 8.0]  # no call costs more than its description said
    assert heard == [0, 1, 1, 1, 1]
