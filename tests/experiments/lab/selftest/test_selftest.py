"""The self-test: nothing is found in the world as it is, and what is wrong on purpose is found, kept small and played again."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from costgym.experiments.lab.selftest import oracles as asked
from costgym.experiments.lab.selftest.run import Report, run
from costgym.experiments.lab.selftest.worlds import Writer
from costgym.experiments.play.trajectories import verify
from costgym.simulators import episode
from costgym.simulators.calls import refusal_at_gateway
from costgym.simulators.episode import Episode
from costgym.simulators.errors import ConfigError, DataError
from costgym.simulators.ledger import Ledger
from costgym.simulators.marketplace.custom import CustomAnswers
from costgym.simulators.scenario import load_scenario, parse_scenario
from tests.helpers.command_line import invoke

WITHOUT_BATCH = [name for name in asked.ORACLES if name not in asked.COMPILED]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the batch, which takes long to compile; `tests/simulators/batch` compares it."""
    monkeypatch.setattr("costgym.experiments.lab.selftest.run.oracles", lambda: WITHOUT_BATCH)
    monkeypatch.setattr("costgym.experiments.lab.selftest.run.run_in_processes", run)  # another process would not see this


def test_random_worlds_keep_every_rule() -> None:
    report = run(60.0, seed=3, worlds=25)
    assert [finding.problem for finding in report.findings] == []
    assert report.tally.worlds == 25 and report.tally.episodes > 150 and report.refused == 0


def test_random_worlds_reach_the_borders_and_all_settings() -> None:
    documents = [Writer(Random(number)).scenario() for number in range(300)]
    for document in documents:
        parse_scenario(document)
    profiles = [tool["profile"] for document in documents for tool in document["source"]["tools"]]
    assert {"quota", "rate_limit", "concurrency", "gpu_cons_mb", "cold_start_s", "timeout_s"} <= set().union(*profiles)
    assert max(profile["fee"] for profile in profiles) == 1e9
    assert {document["enforcement"] for document in documents} == {"terminate", "refuse", "record"}


def wrong_sum(ledger: Ledger, at_s: float, what: str, price: float, tokens: int = 0, calls: int = 0) -> None:
    ledger.price += price * 1.0000001
    ledger.tokens += tokens
    ledger.calls += calls
    ledger.charges.append((at_s, what, price, tokens, calls))  # type: ignore[arg-type]


def always(*_: Any) -> bool:
    return True


def nothing_wrong(*_: Any) -> tuple[str, None]:
    return "", None


def never_banned(of: Episode, call: Any) -> Any:
    kept, of.banned = of.banned, set()
    try:
        return refusal_at_gateway(of, call)
    finally:
        of.banned = kept


def any_answer(*_: Any) -> str:
    return "fact"


def the_last_news(of: Episode) -> Any:
    found = wait(of)
    while of.unread and found is not None:
        found = of.unread.popleft()
    return found


wait = Episode.wait
DEFECTS: dict[str, tuple[Any, str, Any]] = {
    "a ledger that does not add up": (Ledger, "charge", wrong_sum),
    "a budget that can be overdrawn": (Episode, "affordable", always),
    "memory that is shared without end": (episode, "has_room", always),
    "a ban that holds nobody": (episode, "refusal_at_gateway", never_banned),
    "a wait that forgets what came first": (Episode, "wait", the_last_news),
    "wrong arguments that give the fact": (episode, "arguments_match", always),
    "a verification that looks at nothing": (verify.Checker, "check", nothing_wrong),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_is_found_kept_small_and_played_first(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, attribute, defect = DEFECTS[name]
    with monkeypatch.context() as broken:
        broken.setattr(place, attribute, defect)
        if attribute == "arguments_match":
            broken.setattr(CustomAnswers, "answer", any_answer)
        report = run(120.0, seed=0, found=tmp_path, most=1)
        assert len(report.findings) == 1
        (path,) = tmp_path.glob("*.yaml")
        case = yaml.safe_load(path.read_text())
        assert case["problem"] == report.findings[0].problem and len(case["scenario"]["source"]["tools"]) <= 6
        assert run(0.0, seed=0, found=tmp_path).findings  # the next run plays it first
    again = run(0.0, seed=0, found=tmp_path)
    assert (again.findings, again.mended) == ([], [path.name])


@pytest.mark.native
@pytest.mark.parametrize("name", asked.COMPILED)
def test_every_random_world_is_played_by_every_view(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba", reason="needs the extra `train`")
    monkeypatch.setattr("costgym.experiments.lab.selftest.run.oracles", lambda: [name, "threads"])
    report = run(120.0, seed=5, worlds=4)
    assert [finding.problem for finding in report.findings] == [] and not report.tally.refused


def test_a_refusal_is_a_finding_unless_the_world_is_a_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise ConfigError("budget", "too large for this view")

    monkeypatch.setitem(asked.ORACLES, "records", refuse)
    monkeypatch.setattr("costgym.experiments.lab.selftest.run.oracles", lambda: ["records", "threads"])
    (finding,) = run(60.0, seed=0, worlds=1, most=1).findings or [None]
    assert finding is not None and "too large for this view" in finding.problem
    report = run(60.0, seed=0, scenario=load_scenario("storm"), worlds=2)
    assert report.findings == [] and report.tally.refused["records"]


def test_a_users_scenario_is_checked_and_a_broken_case_is_named(tmp_path: Path) -> None:
    report = run(60.0, seed=0, scenario=load_scenario("storm"), worlds=3)
    assert report.findings == [] and report.tally.worlds == 3
    for text in ("oracle: rules\n", "{oracle: rules, seed: .inf, scenario: {}}", "[" * 5_000):
        (tmp_path / "case.yaml").write_text(text)
        with pytest.raises(DataError, match=r"case\.yaml"):
            run(0.0, seed=0, found=tmp_path)
    with pytest.raises(ConfigError, match="--found"):
        run(0.0, seed=0, found=tmp_path / "case.yaml")  # before anything is played
    done = invoke("selftest", "storm", "--minutes", "0.01", "--found", str(tmp_path / "none"))
    assert done.exit_code == 0 and "0 findings" in done.stdout


def test_worlds_that_are_played_in_several_parts_are_the_same_worlds(quick: None) -> None:
    whole, parts = run(600.0, 5, worlds=3), Report()
    while parts.tally.worlds < 3:
        parts.add(run(600.0, 5, worlds=3, first=parts.tally.worlds, full=lambda: True))
        assert parts.left_s > 0.0
    assert vars(parts.tally) == vars(whole.tally) and whole.tally.steps > 100
