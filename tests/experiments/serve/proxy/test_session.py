"""A run of real calls: its faults are those of the simulated world, and a seed repeats them."""

import errno
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from costgym.experiments.serve.proxy.call_log import CallLog, give_verdict, read_runs
from costgym.experiments.serve.proxy.session import Real, Reply, Session, Settings
from costgym.experiments.serve.proxy.world import tool_of, world_around
from costgym.simulators.errors import ConfigError, CostGymError, DataError, UnknownName
from costgym.simulators.ledger import Budget
from costgym.simulators.scenario import load_scenario, parse_scenario
from costgym.simulators.status import AMBIGUOUS, SILENT, Status

TOOLS = [tool_of("alpha"), tool_of("beta"), tool_of("gamma")]
WORKS = Real('{"value": 12345}', Status.OK, 0.001)


def call(session: Session, tool: str, number: int = 0, real: Real = WORKS) -> Reply:
    ticket = session.begin(tool, {"number": number})
    return session.end(ticket, real if ticket.reaches else None)


def settings(seed: int = 0, **others: object) -> Settings:
    return Settings(**{"seed": seed, "time_scale": 0.0, "clock": "calls", **others})


@pytest.mark.parametrize("scenario", ["storm", "silent", "marketplace"])
def test_the_faults_are_those_of_an_episode_of_the_world(scenario: str) -> None:
    world = world_around(TOOLS, load_scenario(scenario))
    session, episode = Session(world, settings(seed=5)), world.episode(0, 5)
    met = []
    for number in range(120):
        reply = call(session, TOOLS[number % 3].name, number)
        twin = episode.call(number % 3, {"number": number})
        if twin.status is Status.RATE_LIMITED:
            episode.advance(
                twin.submitted_s + twin.retry_after_s - episode.now_s
            )  # the session waits as it is told, in no time
            continue
        met.append((reply.status, reply.price))
        assert met[-1] == (twin.status, twin.price)
    assert len({status for status, _ in met}) > 2


def test_a_seed_repeats_a_run_and_another_does_not() -> None:
    world = world_around(TOOLS, load_scenario("storm"))

    def run(seed: int) -> list[tuple[Status, float, str | None]]:
        session = Session(world, settings(seed))
        replies = [call(session, TOOLS[number % 3].name, number) for number in range(60)]
        return [(reply.status, reply.price, reply.text) for reply in replies]

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_the_order_in_which_a_server_lists_its_tools_does_not_matter() -> None:
    one, other = (Session(world_around(tools, load_scenario("storm")), settings()) for tools in (TOOLS, TOOLS[::-1]))
    assert [call(one, "beta").status for _ in range(20)] == [call(other, "beta").status for _ in range(20)]


def test_a_failed_call_never_reaches_the_tool() -> None:
    session = Session(world_around(TOOLS, load_scenario("storm")), settings(2))
    for number in range(60):
        ticket = session.begin(TOOLS[number % 3].name, {})
        reply = session.end(ticket, WORKS if ticket.reaches else None)
        assert ticket.reaches == (reply.status in (Status.OK, Status.PARTIAL, Status.CORRUPT, Status.DRIFTED))


def test_a_call_that_ends_ambiguously_may_have_been_made_and_its_reply_is_lost() -> None:
    def own_value(number: int) -> int:
        return 10_000 + number

    def run(happens: float) -> list[tuple[Status, bool, str | None]]:
        session = Session(world_around(TOOLS, load_scenario("storm")), settings(2, happens=happens))
        tickets = [session.begin(TOOLS[number % 3].name, {"number": number}) for number in range(300)]
        reals = [Real(f'{{"value": {own_value(number)}}}', Status.OK, 0.001) for number in range(300)]
        replies = [session.end(ticket, real if ticket.reaches else None) for ticket, real in zip(tickets, reals, strict=True)]
        return [(reply.status, ticket.reaches, reply.text) for reply, ticket in zip(replies, tickets, strict=True)]

    plain, half, all_made = run(0.0), run(0.5), run(1.0)
    assert [(status, text) for status, _, text in half] == [(status, text) for status, _, text in plain]
    open_ended = [i for i, (status, _, _) in enumerate(plain) if status in AMBIGUOUS.difference(SILENT)]
    assert len(open_ended) > 20
    assert not any(plain[i][1] for i in open_ended) and all(all_made[i][1] for i in open_ended)
    assert 0.3 < sum(half[i][1] for i in open_ended) / len(open_ended) < 0.7
    assert all(str(own_value(i)) not in (half[i][2] or "") for i in open_ended)
    closed = [i for i, (status, _, _) in enumerate(plain) if status not in AMBIGUOUS]
    assert [half[i][1] for i in closed] == [plain[i][1] for i in closed]


def test_the_budget_ends_the_run_and_says_so() -> None:
    session = Session(
        world_around(TOOLS, None, prices={"alpha": 3.0}), settings(budget=Budget(price=7), enforcement="terminate")
    )
    replies = [call(session, "alpha") for _ in range(5)]
    assert [reply.status for reply in replies] == [Status.OK] * 3 + [Status.OVER_BUDGET] * 2
    assert [reply.left["price"] for reply in replies] == [4.0, 1.0, -2.0, -2.0, -2.0]
    assert "the budget of price is used up" in (replies[-1].text or "")


def test_a_budget_is_never_overdrawn_by_default() -> None:
    world = world_around(TOOLS, None, prices={"alpha": 3.0, "beta": 1.0})
    session = Session(world, settings(budget=Budget(price=7)))
    replies = [call(session, tool) for tool in ("alpha", "alpha", "alpha", "beta", "beta")]
    assert [reply.status.label for reply in replies] == ["ok", "ok", "over_budget", "ok", "over_budget"]


@pytest.mark.parametrize("scenario", ["storm", "marketplace", "silent"])
def test_calls_that_overlap_never_overdraw_a_budget(scenario: str) -> None:
    world = world_around(TOOLS, load_scenario(scenario))
    for seed in range(8):
        session, order, running = Session(world, settings(seed, budget="price=20")), Random(seed), []
        for number in range(60):
            running.append(session.begin(order.choice(TOOLS).name, {"number": number}))
            while running and order.random() < 0.6:
                ticket = running.pop(order.randrange(len(running)))
                assert session.end(ticket, WORKS if ticket.reaches else None).left["price"] >= 0
        assert session.episode.ledger.price > 10


def test_a_client_that_waits_as_told_is_let_in_and_one_that_hurries_is_not() -> None:
    document = {
        "name": "limited",
        "failures": "reliable",
        "source": {
            "kind": "own",
            "tools": [{"name": "alpha", "profile": {"rate_limit": 1, "window_s": 60, "fee": 0}}],
            "tasks": [{"query": "?", "needs": [{"capability": "alpha", "fact": "x"}]}],
        },
    }
    clock = [0.0]
    session = Session(world_around(TOOLS[:1], parse_scenario(document)), settings(time_scale=0.5), timer=lambda: clock[0])
    assert call(session, "alpha").status is Status.OK
    refused = call(session, "alpha")
    assert refused.status is Status.RATE_LIMITED
    assert refused.retry_after_s == pytest.approx(29.5)  # half of the 59 seconds that are left of the window
    clock[0] += 20.0
    refused = call(session, "alpha")
    assert refused.status is Status.RATE_LIMITED
    clock[0] += refused.retry_after_s + 3.0  # whatever comes on top of the wait does not count
    assert call(session, "alpha").status is Status.OK
    assert session.episode.now_s == pytest.approx(61.0)


def test_on_the_wall_clock_real_time_passes_in_the_world() -> None:
    clock = [0.0]
    session = Session(world_around(TOOLS, None), Settings(clock="wall", time_scale=0.1), timer=lambda: clock[0])
    clock[0] = 2.0
    call(session, "alpha")
    assert session.episode.now_s == pytest.approx(20.0)


def test_a_reply_that_nothing_spoils_goes_through_as_it_is() -> None:
    session = Session(world_around(TOOLS, None), settings())
    assert call(session, "alpha") == Reply(Status.OK, None, 0.0, {})
    failed = call(session, "alpha", real=Real("404 not found", Status.NOT_FOUND, 0.1))
    assert (failed.status, failed.text, failed.failed) == (Status.NOT_FOUND, None, True)


def test_silent_faults_spoil_real_replies() -> None:
    kinds = {"partial": 1.0, "corrupt": 1.0, "drifted": 1.0}
    scenario = load_scenario("silent")
    failures = scenario.failures.model_copy(update={"kinds": kinds, "usable": 0.0, "slip": 0.0, "sticky": 0.0})
    session = Session(world_around(TOOLS, scenario.model_copy(update={"failures": failures})), settings(budget=Budget()))
    texts = {}
    for number in range(60):
        reply = call(session, "alpha", number)
        texts[reply.status] = reply.text
        assert not reply.failed
    assert set(texts) <= {Status.PARTIAL, Status.CORRUPT, Status.DRIFTED, Status.RATE_LIMITED}
    assert len(texts) > 2 and WORKS.text not in texts.values()


def test_a_fitted_tool_keeps_its_profile_and_others_are_drawn() -> None:
    document = {
        "name": "fitted",
        "failures": "reliable",
        "source": {
            "kind": "own",
            "tools": [{"name": "a_b", "profile": {"fee": 0.25, "latency_s": 9.0}}],
            "tasks": [{"query": "?", "needs": [{"capability": "a_b", "fact": "x"}]}],
        },
    }
    world = world_around([tool_of("a:b"), tool_of("gamma")], parse_scenario(document), prices={"gamma": 2.5})
    assert (world.catalog.get("a:b").profile.fee, world.catalog.get("a:b").profile.latency_s) == (0.25, (9.0,))
    assert world.catalog.get("gamma").profile.fee == 2.5


@pytest.mark.parametrize("faults, most", [(0.0, 0), (3.0, 200)])
def test_faults_are_scaled(faults: float, most: int) -> None:
    failed = 0
    for seed in range(20):
        session = Session(world_around(TOOLS, load_scenario("marketplace"), faults=faults), settings(seed))
        failed += sum(call(session, "beta").status not in (Status.OK, Status.RATE_LIMITED) for _ in range(10))
    assert failed <= most and (failed > 60) == (faults > 1)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: world_around([], None),
        lambda: world_around(TOOLS, None, prices={"delta": 1.0}),
        lambda: world_around(TOOLS, None, prices={"alpha": -1.0}),
        lambda: world_around(TOOLS, None, faults=2.0),
        lambda: world_around(TOOLS, load_scenario("storm"), faults=-1.0),
        lambda: world_around([TOOLS[0], TOOLS[0]], None),
        lambda: Settings(clock="sun"),
        lambda: Settings(enforcement="sometimes"),
        lambda: Settings(buget="price=3"),
        lambda: Settings(time_scale=-1.0),
        lambda: Settings(clock="wall", time_scale=0.0),
    ],
)
def test_what_cannot_be_is_refused(wrong: object) -> None:
    with pytest.raises(CostGymError):
        wrong()  # type: ignore[operator]


# -- the log ------------------------------------------------------------------------------------------------------------


def logged(path: Path, run: str, seed: int = 0, verdict: bool | None = None) -> None:
    session = Session(world_around(TOOLS, load_scenario("storm")), settings(seed), CallLog(path, run))
    for number in range(10):
        call(session, TOOLS[number % 3].name, number)
    session.close("done", verdict)


def test_a_log_holds_runs_with_their_calls_and_verdicts(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    logged(path, "one", verdict=True)
    logged(path, "two", seed=1)
    one, two = read_runs([path])
    assert (one.name, one.success, one.reason, len(one.calls)) == ("one", True, "done", 10)
    assert (two.success, two.settings["seed"]) == (None, 1)
    assert one.price == sum(call["price"] for call in one.calls) > 0
    give_verdict(path, "two", False)
    assert read_runs([path])[1].success is False
    with pytest.raises(UnknownName):
        give_verdict(path, "three", True)


def test_a_log_that_was_cut_off_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    logged(path, "one")
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    assert read_runs([path])[0].reason is None
    logged(path, "two")
    assert [run.name for run in read_runs([path])] == ["one", "two"]


def test_a_log_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_text('{"tool": "a"}\n')
    with pytest.raises(CostGymError, match="line 1"):
        read_runs([path])
    path.write_text("")
    with pytest.raises(ConfigError):
        give_verdict(path, "one", True)


def test_a_world_fitted_to_the_log_gives_the_proxy_its_luck_again(tmp_path: Path) -> None:
    pytest.importorskip("scipy", reason="the extra `train` is not installed")
    from costgym.experiments.fit.calibration.calibrate import calibrate

    path = tmp_path / "calls.jsonl"
    world = world_around(TOOLS, load_scenario("silent"), prices={"alpha": 0.5})
    for seed in range(30):
        session = Session(world, settings(seed), CallLog(path, f"run {seed}"))
        for number in range(12):
            call(session, "alpha", number)
        session.close("done")
    calibration = calibrate(path, "fitted", None, 3600.0, None)
    row = calibration.report["tools"]["alpha"]
    assert (row["calls"], row["price"]["fee"]) == (360, 0.5)
    calibration.write(tmp_path / "fitted.yaml", None)
    again = world_around(TOOLS, load_scenario(tmp_path / "fitted.yaml"))
    profile, fitted = world.catalog.get("alpha").profile, again.catalog.get("alpha").profile
    assert fitted.latency_s[0] == pytest.approx(profile.latency_s[0], rel=0.15)
    assert fitted.fee == 0.5


class Stingy:
    """A file that takes three bytes at a time, and after some of them none."""

    def __init__(self, file: Any, most: int) -> None:
        self.file, self.left = file, most

    def fileno(self) -> int:
        return int(self.file.fileno())

    def write(self, text: memoryview) -> int:
        if self.left <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.left -= 3
        return int(self.file.write(text[:3]))


def test_a_line_of_the_log_is_whole_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    log = CallLog(path, "one")
    log.write({"format": 1})
    log._file = Stingy(log._file, 10_000)  # type: ignore[assignment]
    log.write({"event": "a"})
    before = path.read_bytes()
    assert [json.loads(line) for line in before.splitlines()][1] == {"run": "one", "event": "a"}
    log._file.left = 9  # type: ignore[attr-defined]
    with pytest.raises(DataError, match=r"log\.jsonl.*No space left"):
        log.write({"event": "b"})
    assert path.read_bytes() == before
