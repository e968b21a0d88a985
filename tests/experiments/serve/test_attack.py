"""The server under attack: no failure, no lost place, no word of what an agent must not know."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the extra `serve` is not installed")
pytest.importorskip("starlette", reason="the extra `serve` is not installed")

from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from costgym.experiments.play.trajectories.format import read_trajectories
from costgym.experiments.serve import sessions as sessions_module
from costgym.experiments.serve.limits import AccessOptions, Limits, Refused
from costgym.experiments.serve.server import Service
from costgym.experiments.serve.sessions import ABANDONED, Recorder, Sessions
from costgym.experiments.serve.tools import call as call_tool
from costgym.experiments.serve.wire import plain
from costgym.simulators.errors import ConfigError, CostGymError
from tests.helpers.attack import (
    ENV,
    GREETING,
    MCP_SESSION,
    attack,
    http,
    make_env,
    make_service,
    open_and_close,
    request,
    secret_in,
    socket,
)
from tests.helpers.command_line import invoke


def post(service: Service, path: str, body: Any, **headers: str) -> tuple[int, Any]:
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    status, text = asyncio.run(http(service, "POST", path, sent, **headers))
    return status, json.loads(text)


def get(service: Service, path: str, **headers: str) -> tuple[int, Any]:
    status, text = asyncio.run(http(service, "GET", path, **headers))
    return status, json.loads(text)


def test_no_message_breaks_the_server_leaks_a_session_or_a_secret() -> None:
    met, wrong = asyncio.run(attack(make_service(), 500, seed=1, connections=4))
    assert wrong == []
    assert met.total() >= 500 and len(met) > 20


def test_sessions_that_are_left_leave_nothing() -> None:
    service = make_service()

    async def run() -> int:
        async with service._life(None):  # type: ignore[arg-type]
            for number in range(12):
                await open_and_close(service, number)
            return len(service.sessions)

    assert asyncio.run(run()) == 0


def test_requests_of_one_id_at_once_and_the_end_meanwhile_are_all_answered() -> None:
    service = make_service()
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}

    def say(method: str, params: Any) -> bytes:
        return json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).encode()

    async def run() -> list[int]:
        async with service._life(None):  # type: ignore[arg-type]
            _, answered, _ = await request(service, "POST", "/mcp", say("initialize", GREETING), headers)
            session_headers = {**headers, MCP_SESSION: answered[MCP_SESSION]}
            both = [request(service, "POST", "/mcp", say("ping", {}), session_headers) for _ in range(2)]
            ended = [
                request(service, "POST", "/mcp", say("ping", {}), session_headers),
                request(service, "DELETE", "/mcp", b"", session_headers),
            ]
            return [status for pair in (both, ended) for status, _, _ in await asyncio.gather(*pair)]

    assert asyncio.run(run()) == [200, 200, 200, 200]


def test_the_search_for_secrets_finds_them_where_they_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions_module, "encode_info", plain)
    _, wrong = asyncio.run(attack(make_service(), 500, seed=1))
    assert any("tells" in response for response in wrong)


def test_tools_over_mcp_tell_a_status_only_as_far_as_it_is_seen() -> None:
    sessions = Sessions(make_env, Limits(), 0, lambda: 0.0)
    world: Any = sessions.example.unwrapped
    met = set()
    for seed in range(12):
        session = sessions.open()
        session.reset({"seed": seed})
        world = session.env.unwrapped
        for slot in world.episode.candidates:
            if slot.need < 0 or world.episode.over:
                continue
            answer = call_tool(session, slot.name, world.episode.needs[slot.need].arguments)
            met.add(world.episode.calls[-1].status.label)
            assert secret_in(answer.model_dump_json()) is None and "seed" not in answer.model_dump_json()
            assert len(answer.content) == 1
    assert {"ok", "empty", "irrelevant"} <= met


@pytest.mark.parametrize(
    "body",
    [
        {"episode_id": "\ud800"},
        {"task": "\udfff"},
        b'{"seed": 1' + b"0" * 5000 + b"}",
        {"a": "\ud800"},
        {"split": {"\ud800": 1}, "index": 0},
    ],
)
def test_a_reset_that_cannot_be_answered_takes_no_place(body: Any) -> None:
    service = make_service()
    for _ in range(3):
        status, answer = post(service, "/reset", body)
        assert (status, answer["code"]) == (400, "INVALID_JSON")
    assert len(service.sessions) == 0
    (answer_of_socket,) = asyncio.run(socket(service, [json.dumps({"type": "reset", "data": {"episode_id": "\ud800"}})]))
    assert json.loads(answer_of_socket)["data"]["code"] == "INVALID_JSON" and len(service.sessions) == 0


@pytest.mark.parametrize(
    "params", ["text", "session_id", [1, 2], ["session_id"], 3, True, {"session_id": ["x"]}, {"session_id": {}}]
)
@pytest.mark.parametrize("method", ["openenv/session/create", "openenv/session/close", "tools/call", "tools/list"])
def test_parameters_of_another_form_are_refused(method: str, params: Any) -> None:
    service = make_service()

    async def run() -> tuple[int, str]:
        async with service._life(None):  # type: ignore[arg-type]
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            return await http(service, "POST", "/mcp", json.dumps(body).encode())

    status, text = asyncio.run(run())
    assert status < 500 and ("error" in json.loads(text) or method.endswith("create"))


def test_a_failure_of_the_environment_gives_the_place_back() -> None:
    service = make_service()

    def broken(**_: Any) -> Any:
        raise RuntimeError("out of order")

    make = service.sessions._make

    def make_broken() -> Any:
        env = make()
        env.reset = broken  # type: ignore[method-assign]
        return env

    service.sessions._make = make_broken
    with pytest.raises(RuntimeError):
        post(service, "/reset", {})
    assert len(service.sessions) == 0


def test_a_hang_up_gives_the_place_back_at_once() -> None:
    service = make_service(sessions=1)
    for _ in range(5):
        answers = asyncio.run(socket(service, ['{"type": "reset"}']))
        assert json.loads(answers[0])["type"] == "observation"
        assert len(service.sessions) == 0


def test_an_address_has_only_its_own_places() -> None:
    sessions = Sessions(make_env, Limits(sessions=4, client_sessions=2), 0, lambda: 0.0)
    first, _ = sessions.open(client="10.0.0.1"), sessions.open(client="10.0.0.1")
    with pytest.raises(Refused, match="all 2 sessions of this address"):
        sessions.open(client="10.0.0.1")
    sessions.open(client="10.0.0.2")
    sessions.close(first)
    sessions.open(client="10.0.0.1")


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost.evil.example"])
def test_pages_of_other_sites_are_not_answered_on_any_port(host: str, origin: str) -> None:
    service = make_service(access=AccessOptions(allow_host=("localhost",)).access(host))
    assert get(service, "/health", origin=origin)[0] == 403
    assert get(service, "/health", origin=origin, host="evil.example")[0] == 403  # a name that leads here (rebinding)
    assert post(service, "/reset", {}, origin=origin)[0] == 403
    assert asyncio.run(socket(service, ['{"type": "reset"}'], origin=origin)) == []
    assert get(service, "/health", origin="http://localhost:9")[0] == 200


def test_a_token_is_asked_for_in_every_request(tmp_path: Path) -> None:
    options = AccessOptions(token=tmp_path / "token")
    service = make_service(access=options.access("0.0.0.0"))
    token = (tmp_path / "token").read_text().strip()
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600 and len(token) > 40
    assert options.access("127.0.0.1").token == token  # the file is kept
    for wrong in ("", token, f"Bearer {token[:-1]}", f"Bearer {token}x", f"Basic {token}", "Bearer \u00e9"):
        assert get(service, "/health", authorization=wrong)[0] == 401
        assert post(service, "/reset", {}, authorization=wrong)[0] == 401
        assert asyncio.run(socket(service, ['{"type": "reset"}'], authorization=wrong)) == []
    secret_headers = {"authorization": f"Bearer {token}", "host": "any.example"}
    assert get(service, "/health", **secret_headers)[0] == 200 and post(service, "/reset", {}, **secret_headers)[0] == 200
    assert len(asyncio.run(socket(service, ['{"type": "reset"}'], **secret_headers))) == 1
    for text in ("short", "x" * 2000, "two words of a token\n", ""):
        (tmp_path / "token").write_text(text)
        with pytest.raises(CostGymError, match="token"):
            options.access("127.0.0.1")


@pytest.mark.parametrize("verb", [("serve",), ("proxy", "run", "--port", "0")])
@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "example.org"])
def test_nothing_listens_beyond_this_machine_unless_somebody_is_allowed(verb: tuple[str, ...], host: str) -> None:
    done = invoke(*verb, "--host", host, *(("--", "true") if verb[0] == "proxy" else ()))
    assert done.exit_code == 2 and f"every machine that reaches {host}" in done.stderr and "--token FILE" in done.stderr


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "OPTIONS", "POST", "PUT", "PATCH", "ODD"])
@pytest.mark.parametrize("path", ["/mcp", "/mcp/name", "/health", "/reset", "/nowhere"])
def test_no_method_of_any_path_reads_a_body_beyond_the_limit(method: str, path: str) -> None:
    service = make_service(request_bytes=1000)
    taken = 0

    async def receive() -> dict[str, Any]:
        nonlocal taken
        taken += 100
        return {"type": "http.request", "body": b" " * 100, "more_body": True}

    sent = list[dict[str, Any]]()

    async def send(message: Any) -> None:
        sent.append(message)

    version = MODERN_PROTOCOL_VERSIONS[-1]
    headers = [(b"host", b"localhost"), (b"mcp-protocol-version", version.encode())]
    about = {"raw_path": path.encode(), "query_string": b"", "root_path": "", "client": ("127.0.0.1", 1)}
    scope = {"type": "http", "method": method, "path": path, "headers": headers, "http_version": "1.1", **about}
    asyncio.run(service.app(scope, receive, send))
    assert sent[0]["status"] == 413 and taken == 1100


def test_the_root_says_what_the_service_is() -> None:
    status, answer = get(make_service(), "/")
    assert (status, answer["service"], answer["environment"]) == (200, "costgym", ENV)
    assert set(answer["protocols"]) == {"OpenEnv over WebSocket", "OpenEnv over HTTP", "MCP"}


def test_the_state_of_a_closed_session_can_be_read_for_the_idle_time() -> None:
    now = [0.0]
    sessions = Sessions(make_env, Limits(sessions=2, idle_s=10.0), 0, lambda: now[0])
    session = sessions.open()
    session.reset({})
    session.act('{"name": "finish", "arguments": {"answer": "x"}}')
    sessions.close(session)
    assert sessions.last_state(session.name)["done"] is True
    now[0] = 11.0
    with pytest.raises(Refused):
        sessions.last_state(session.name)


def play(service: Service, answer: str) -> None:
    name = post(service, "/reset", {"seed": 5, "index": 1})[1]["metadata"]["session_id"]
    for action in ({"name": "wait", "arguments": {"seconds": 2}}, {"action": "\U0001f600 no call"}):
        assert post(service, "/step", {"session_id": name, "action": action})[0] == 200
    done = post(service, "/step", {"session_id": name, "action": {"name": "finish", "arguments": {"answer": answer}}})[1]
    assert done["done"]


def test_what_is_played_over_the_service_is_recorded_and_verified(tmp_path: Path) -> None:
    for answer in ("x", "y"):  # the second server continues the first one's folder
        with Recorder(tmp_path / "records", make_env(), ENV, "client") as recorder:
            service = make_service(recorder)
            play(service, answer)
            left = post(service, "/reset", {})[1]["metadata"]["session_id"]
            post(service, "/reset", {"session_id": left})  # left before its end, and the next one is left too
            post(service, "/close", {"session_id": left})
            with pytest.raises(ConfigError, match="another process"):
                Recorder(tmp_path / "records", make_env(), ENV, "client")
    done = invoke("verify", str(tmp_path / "records"))
    assert "6 episodes verified, 0 problems" in done.stdout and done.exit_code == 0
    _, episodes = read_trajectories(tmp_path / "records" / "trajectories.jsonl")
    crashes = [(episode.episode, episode.crash, episode.final["strict"]) for episode in episodes]
    assert [crash for _, crash, _ in crashes] == ["", ABANDONED, ABANDONED] * 2
    assert [index for index, _, _ in crashes] == list(range(6)) and not any(strict for _, _, strict in crashes)
    path = tmp_path / "records" / "trajectories.jsonl"
    path.write_text(path.read_text().replace('"share":0.0', '"share":1.0'))
    assert invoke("verify", str(tmp_path / "records")).exit_code == 1
    with pytest.raises(ConfigError, match="another scenario"):
        import costgym

        Recorder(tmp_path / "records", costgym.make(ENV, disable_env_checker=True), ENV, "client")
