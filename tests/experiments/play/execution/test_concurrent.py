"""Requests to a model server: one limit for the whole run, waits that hold for all, and the same board after a kill."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.hostile.provider_faults import Provider, check, faults, files, lookup, recorded
from costgym.agents.models.base import ASSISTANT, MISHAPS, USER, Message, Reply
from costgym.agents.models.cached import Cached
from costgym.agents.models.named import CACHE_VARIABLE
from costgym.agents.models.openai import URL_VARIABLE, OpenAIModel
from costgym.agents.models.traffic import TRAFFIC, Traffic, asked_wait_s
from costgym.cli.options import WorkerOptions
from costgym.experiments.board.verify import verify
from costgym.experiments.leaderboard import make_run_config, run
from costgym.experiments.play.costs.spending import Spending
from costgym.experiments.play.execution.concurrent import Concurrent, engine_for
from costgym.experiments.play.execution.engine import Local
from costgym.simulators.calls import Usage
from costgym.simulators.errors import InfrastructureError
from costgym.simulators.scenario import parse_scenario
from tests.helpers.model_server import Server, wire_reply
from tests.helpers.playing import SMALL


class Slow(Server):
    """A server that answers after a while, each request by its content alone."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds
        self.together = 0  # requests that it waits for before it answers the first, at most five seconds
        self.refusals: list[tuple[int, dict[str, str]]] = []

    def answer(self, request: dict[str, Any], headers: dict[str, str]) -> Any:
        with self.lock:
            refusal = self.refusals.pop() if self.refusals else None
        time.sleep(self.seconds)
        patience = time.monotonic() + 5
        while self.peak < self.together and time.monotonic() < patience:
            time.sleep(0.005)
        self.together = 0
        if refusal is not None:
            return refusal[0], json.dumps({"error": {"message": "busy"}}), refusal[1]
        turns = sum(message["role"] == "assistant" for message in request["messages"])
        if turns == 0 and request["seed"] % 2:
            return wire_reply("", ("no_such_tool", {"seed": request["seed"]}))
        return wire_reply("", ("finish", {"answer": str(request["seed"])}), prompt=100 + request["seed"] % 7)

    def sorted_requests(self) -> list[str]:
        return sorted(map(json.dumps, self.requests))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    slow_server = Slow(0.02)
    monkeypatch.setenv(URL_VARIABLE, slow_server.url)
    monkeypatch.delenv(CACHE_VARIABLE, raising=False)
    yield slow_server
    slow_server.close()


def board(episodes: int = 12) -> Any:
    scenario = parse_scenario({"name": "small", **SMALL, "tokens": {"input": 1.0, "output": 4.0}})
    return make_run_config(
        scenario=scenario, agents=["react", "cot@5"], budgets="price=20", episodes=episodes, model="openai:tiny"
    )


def interrupt(config: Any, out: Path, stop: int, concurrency: int) -> None:
    """Play until so many episodes have ended."""

    class Stop(Exception):
        pass

    def stop_at(done: int, total: int) -> None:
        if done == stop:
            raise Stop

    with pytest.raises(Stop):
        run(config, out, progress=stop_at, concurrency=concurrency)
    while any(thread.name.startswith("episode") for thread in threading.enumerate()):
        time.sleep(0.01)  # a killed process has no threads; here they end what they are at
    assert (out / ".replies").is_dir()


def test_requests_are_in_flight_together_up_to_the_limit_and_the_board_is_the_same(server: Slow, tmp_path: Path) -> None:
    boards = []
    for concurrency in (1, 6):
        server.peak, server.together, server.requests = 0, concurrency, []
        run(board(), tmp_path / str(concurrency), jobs=2, concurrency=concurrency)
        assert server.peak == concurrency
        boards.append((files(tmp_path / str(concurrency)), server.sorted_requests()))
    assert boards[0] == boards[1]
    assert len(boards[0][1]) > 24 and not any(".replies" in name for name in boards[0][0])
    assert verify(tmp_path / "6").verified


def test_a_run_that_is_interrupted_asks_for_no_reply_twice(server: Slow, tmp_path: Path) -> None:
    run(board(), tmp_path / "whole", concurrency=4)
    wanted, server.requests = server.sorted_requests(), []
    for stop in (3, 9, 17):
        interrupt(board(), tmp_path / "part", stop, concurrency=4)
    run(board(), tmp_path / "part", concurrency=4)
    assert files(tmp_path / "part") == files(tmp_path / "whole")
    assert server.sorted_requests() == wanted


def test_faults_of_a_provider_are_counted_right_and_an_interrupted_run_meets_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(CACHE_VARIABLE, raising=False)
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.02, raising=False)  # half a second after a time-out
    tasks, numbers = lookup()
    servers = {name: Provider(tasks, share, timeout_s=0.5) for name, share in (("clean", 0.0), ("whole", 0.7), ("part", 0.7))}
    for name, server in servers.items():
        monkeypatch.setenv(URL_VARIABLE, server.url)
        one_row = {"scenario": "marketplace-small", "agents": ["react"], "budgets": "price=40", "seeds": 1}
        config = make_run_config(**one_row, episodes=16, model="openai:stub,timeout_s=0.5")
        for stop in (3, 9) if name == "part" else ():
            interrupt(config, tmp_path / name, stop, concurrency=8)
        run(config, tmp_path / name, concurrency=8)
        server.close()
    wrong, figures = check(servers["whole"], tmp_path / "whole", recorded(tmp_path / "clean"), numbers)
    assert not wrong and set(figures["episodes_by_class"]) == {*MISHAPS, "void_episodes"}
    assert files(tmp_path / "part") == files(tmp_path / "whole") and verify(tmp_path / "part").verified


@pytest.mark.slow
def test_a_run_that_is_killed_goes_on_to_the_same_board() -> None:
    report = faults(episodes=40, share=0.3, kills=3, seed=0)
    assert not report["wrong"] and report["episodes_on_disk_at_kills"][0] < 40


def test_a_failure_of_the_server_is_met_again_where_an_episode_begins_again(tmp_path: Path) -> None:
    class Model:
        name, request_count = "tiny", 0

        def reset(self, seed: int) -> None: ...

        def complete(self, *_: Any) -> Reply:
            self.request_count += 1
            if self.request_count == 1:
                raise InfrastructureError("down")
            return Reply(Message(ASSISTANT, "hello"), Usage(1, 1))

    model, request = Model(), ([Message(USER, "q")], ())
    for number_of_requests in (2, 2):
        cached = Cached(model, tmp_path / "replies.sqlite", keeps_failures=True)
        with pytest.raises(InfrastructureError, match="down"):
            cached.complete(*request)
        cached.reset(0)
        assert cached.complete(*request).message.content == "hello" and model.request_count == number_of_requests
    assert Cached(model, tmp_path / "replies.sqlite").complete(*request).message.content == "hello"


def test_a_wait_that_a_server_asks_for_holds_for_all(server: Slow) -> None:
    server.refusals = [(429, {"Retry-After": "0.6"})]
    first, second = (OpenAIModel("tiny", url=server.url) for _ in range(2))
    request = [Message(USER, "q")]
    one = threading.Thread(target=first.complete, args=(request, ()))
    one.start()
    while not server.requests or server.in_flight:
        time.sleep(0.002)
    time.sleep(0.05)
    second.complete(request, ())
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
    doubled = list(Concurrent(5).stream(_double, shared, iter(range(12))))
    assert doubled[::2] == [2 * n for n in range(12)] and shared == [] and sum(doubled[1::2]) >= 12
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
