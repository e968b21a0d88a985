"""Requests to a model server: one limit for the whole run, waits that hold for all, and the same board after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from costgym.agents.models.base import USER, Message
from costgym.agents.models.named import CACHE_VARIABLE
from costgym.agents.models.openai import URL_VARIABLE, OpenAIModel
from costgym.agents.models.traffic import TRAFFIC, Traffic, asked_wait_s
from costgym.cli.options import WorkerOptions
from costgym.experiments.board.verify import verify
from costgym.experiments.leaderboard import make_run_config, run
from costgym.experiments.play.execution.concurrent import Concurrent, engine_for
from costgym.experiments.play.execution.engine import Local
from costgym.experiments.play.spending import Spending
from costgym.simulators.scenario import parse_scenario
from tests.helpers.model_server import said
from tests.helpers.playing import SMALL


class Slow:
    """A server that answers after a while, each request by its content alone, and counts those that are in flight."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.in_flight, self.peak, self.mishaps = seconds, 0, 0, False
        self.requests: list[str] = []
        self.at: list[float] = []
        self.refusals: list[tuple[int, dict[str, str]]] = []
        self.lock = threading.Lock()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with owner.lock:
                    owner.requests.append(body.decode())
                    owner.at.append(time.monotonic())
                    owner.in_flight += 1
                    owner.peak = max(owner.peak, owner.in_flight)
                    status, extra = owner.refusals.pop() if owner.refusals else (200, {})
                time.sleep(owner.seconds)
                with owner.lock:
                    owner.in_flight -= 1
                text = json.dumps(owner.answer(json.loads(body)) if status == 200 else {"error": {"message": "busy"}}).encode()
                self.send_response(status)
                for name, value in {**extra, "Content-Length": str(len(text)), "Content-Type": "application/json"}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: Any) -> None: ...

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        turns = sum(message["role"] == "assistant" for message in request["messages"])
        if turns == 0 and request["seed"] % 2:
            return said("", ("no_such_tool", {"seed": request["seed"]}))
        return said("", ("finish", {"answer": str(request["seed"])}), prompt=100 + request["seed"] % 7)

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    found = Slow(0.05)
    monkeypatch.setenv(URL_VARIABLE, found.url)
    monkeypatch.delenv(CACHE_VARIABLE, raising=False)
    yield found
    found.close()


def board(episodes: int = 24) -> Any:
    scenario = parse_scenario({"name": "small", **SMALL, "tokens": {"input": 1.0, "output": 4.0}})
    return make_run_config(
        scenario=scenario, agents=["react", "cot@5"], budgets="price=20", episodes=episodes, model="openai:tiny"
    )


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_requests_are_in_flight_together_up_to_the_limit_and_the_board_is_the_same(server: Slow, tmp_path: Path) -> None:
    boards = []
    for concurrency in (1, 6):
        server.peak, server.requests = 0, []
        run(board(), tmp_path / str(concurrency), jobs=2, concurrency=concurrency)
        assert server.peak == concurrency
        boards.append((files(tmp_path / str(concurrency)), sorted(server.requests)))
    assert boards[0] == boards[1]
    assert len(boards[0][1]) > 48 and not any(".replies" in name for name in boards[0][0])
    assert verify(tmp_path / "6").verified


def test_a_run_that_is_interrupted_asks_for_no_reply_twice(server: Slow, tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    run(board(), tmp_path / "whole", concurrency=4)
    wanted, server.requests = sorted(server.requests), []
    for stop in (3, 9, 17):

        def stop_at(done: int, total: int, stop: int = stop) -> None:
            if done == stop:
                raise Stop

        with pytest.raises(Stop):
            run(board(), tmp_path / "part", progress=stop_at, concurrency=4)
        while any(thread.name.startswith("episode") for thread in threading.enumerate()):
            time.sleep(0.01)  # a killed process has no threads; here they end what they are at
        assert (tmp_path / "part" / ".replies").is_dir()
    run(board(), tmp_path / "part", concurrency=4)
    assert files(tmp_path / "part") == files(tmp_path / "whole")
    assert sorted(server.requests) == wanted


@pytest.mark.slow
def test_a_run_that_is_killed_goes_on_to_the_same_board(server: Slow, tmp_path: Path) -> None:
    run(board(), tmp_path / "whole", concurrency=4)
    wanted, server.requests = len(server.requests), []
    (tmp_path / "run.json").write_bytes((tmp_path / "whole" / "run.json").read_bytes())
    program = (
        "import sys; from costgym.experiments.leaderboard import RunConfig, run; from pathlib import Path;"
        "config = RunConfig.model_validate_json(Path(sys.argv[1]).read_text()); run(config, sys.argv[2], concurrency=4)"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "run.json"), str(tmp_path / "part")]
    for kill in (8, 20, 32):
        process = subprocess.Popen(command, env={**os.environ, "OPENAI_BASE_URL": server.url})
        while len(server.requests) < kill and process.poll() is None:
            time.sleep(0.005)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    subprocess.run(command, env={**os.environ, "OPENAI_BASE_URL": server.url}, check=True, timeout=120)
    assert files(tmp_path / "part") == files(tmp_path / "whole")
    # only what was on its way at the moment of a kill is asked for again
    assert wanted <= len(server.requests) <= wanted + 3 * 4


def test_a_wait_that_a_server_asks_for_holds_for_all(server: Slow) -> None:
    server.refusals = [(429, {"Retry-After": "0.6"})]
    first, second = (OpenAIModel("tiny", url=server.url) for _ in range(2))
    asked = [Message(USER, "q")]
    one = threading.Thread(target=first.complete, args=(asked, ()))
    one.start()
    while not server.requests or server.in_flight:
        time.sleep(0.002)
    time.sleep(0.05)
    second.complete(asked, ())
    one.join()
    assert len(server.at) == 3
    assert min(server.at[1:]) - server.at[0] > 0.6


def test_a_wait_holds_for_its_server_alone_and_has_a_longest() -> None:
    traffic = Traffic()
    begun = time.monotonic()
    traffic.close("a", 0.2)
    traffic.close("a", 3600.0)
    traffic.wait("b")
    assert time.monotonic() - begun < 0.2
    traffic.wait("a")
    assert 0.2 <= time.monotonic() - begun < 3
    assert asked_wait_s({"retry-after": "2"}) == 2 and asked_wait_s({"retry-after-ms": "250", "retry-after": "9"}) == 0.25
    assert asked_wait_s({}) == asked_wait_s({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}) == 0


def test_one_limit_holds_whatever_the_number_of_processes() -> None:
    assert isinstance(engine_for("simulated", 3), Local)
    chosen = engine_for("openai:tiny", 3, 16)
    assert isinstance(chosen, Concurrent) and chosen.size == 16
    with WorkerOptions(jobs=2).open("openai:tiny", 1, 5) as engine:
        assert isinstance(engine, Concurrent) and engine.size == 5


def _double(shared: list[int], task: int) -> Iterator[int]:
    shared.append(task)
    if task == 13:
        raise ValueError("thirteen")
    yield 2 * task
    yield len(shared)


def test_items_come_in_the_order_of_the_tasks_and_an_error_ends_the_stream() -> None:
    shared: list[int] = []
    found = list(Concurrent(5).stream(_double, shared, iter(range(12))))
    assert found[::2] == [2 * n for n in range(12)] and shared == [] and sum(found[1::2]) >= 12
    with pytest.raises(ValueError, match="thirteen"):
        list(Concurrent(3).stream(_double, shared, range(100)))
    assert list(Concurrent(3).stream(_double, shared, ())) == []


def test_the_progress_line_says_what_is_in_flight_and_what_it_cost(capsys: pytest.CaptureFixture[str]) -> None:
    from costgym.cli.options import requests_and_cost
    from costgym.cli.output import Progress

    spending = Spending("openai:gpt-4o-mini-2024-07-18")
    spending.spent_usd = 0.5
    with TRAFFIC.request(), TRAFFIC.request():
        assert requests_and_cost(spending) == "2 requests in flight, $0.5 so far"
        with Progress("playing", False) as progress:
            progress.state = lambda: requests_and_cost(spending)
            progress.update(3, 10)
    shown = capsys.readouterr().err
    assert "3/10" in shown and "2 requests in flight" in shown
    assert TRAFFIC.in_flight == 0
