"""Logs with a truth that the world's models do not have: what the fit cannot reproduce is named, what it can is found."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("scipy", reason="the extra `train` is not installed")

from costgym.experiments.fit.calibration import judge
from costgym.experiments.fit.calibration.calibrate import calibrate
from costgym.simulators.errors import ConfigError
from costgym.simulators.ledger import Budget
from costgym.simulators.status import Status

CALLS = 1_200
DAY_S = 86_400.0


def record(at: float, seconds: float, well: bool, tool: str = "a", status: str = "server_error", **more: Any) -> dict[str, Any]:
    outcome = "ok" if well else status
    return {"tool": tool, "started": at, "latency_s": seconds, "status": outcome, "price": 1.0, **more}


def bimodal(luck: np.random.Generator) -> Iterator[dict[str, Any]]:
    for number in range(CALLS):
        median = 3.0 if luck.random() < 0.3 else 0.3  # misses of a cache
        yield record(60.0 * number, median * luck.lognormal(0.0, 0.2), luck.random() < 0.95, episode=f"e{number // 6}")


def daily_outage(luck: np.random.Generator) -> Iterator[dict[str, Any]]:
    for number in range(CALLS):
        at = 600.0 * number
        down = 2 * 3600.0 <= at % DAY_S < 4 * 3600.0
        yield record(at, 0.4 * luck.lognormal(0.0, 0.3), not down and luck.random() < 0.98, episode=f"e{number // 6}")


def shared_outage(luck: np.random.Generator) -> Iterator[dict[str, Any]]:
    begins = np.cumsum(luck.exponential(4_000.0, 40))
    for number in range(CALLS // 2):
        down = bool(np.any((begins <= 60.0 * number) & (60.0 * number < begins + 400.0)))
        for tool in "ab":
            well = not down and luck.random() < 0.97
            yield record(60.0 * number, 0.4 * luck.lognormal(0.0, 0.3), well, tool, episode=f"e{number // 6}")


def retries(luck: np.random.Generator) -> Iterator[dict[str, Any]]:
    for number in range(CALLS // 2):
        at = 60.0 * number
        for _ in range(4):  # a client that tries again at once, for failures that have nothing to do with each other
            seconds, well = 0.4 * luck.lognormal(0.0, 0.3), bool(luck.random() < 0.75)
            yield record(at, seconds, well, episode=f"e{number // 6}")
            at += seconds + 0.1
            if well:
                break


def rate_limits(luck: np.random.Generator) -> Iterator[dict[str, Any]]:
    admitted: list[float] = []
    at = 0.0
    for number in range(CALLS):
        at += 60.0 if number % 8 == 0 else luck.exponential(1.0)
        if sum(before > at - 10.0 for before in admitted) >= 5:
            yield record(at, 0.02, False, status="rate_limited", episode=f"e{number // 8}")
        else:
            admitted.append(at)
            yield record(at, 0.4 * luck.lognormal(0.0, 0.3), luck.random() < 0.95, episode=f"e{number // 8}")


def drift(luck: np.random.Generator) -> Iterator[dict[str, Any]]:
    for number in range(CALLS):
        age = number / CALLS
        seconds = 0.4 * (1.0 + age) * luck.lognormal(0.0, 0.3)
        yield record(60.0 * number, seconds, luck.random() < 0.99 - 0.3 * age, episode=f"e{number // 6}")


NAMED = {  # in the misses, the warnings or the unseen calls
    "bimodal": (),
    "daily_outage": ("success depends on the time of day",),
    "shared_outage": (),
    "retries": ("of the failed calls are tried again at once",),
    "rate_limits": (),
    "drift": ("success drifts, from",),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMED)
def test_what_cannot_be_reproduced_is_named(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.jsonl"
    records = globals()[name](np.random.default_rng(7))
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    report = calibrate(path).report
    notes = [*report["not_reproduced"], *report["warnings"]]
    for words in NAMED[name]:
        assert any(words in line for line in notes), notes
    expected = {words for other, named in NAMED.items() if other != name for words in named}
    assert not [line for line in notes for words in expected if words in line]  # and nothing that is not there
    for row in report["tools"].values():
        figures = row["reproduced"]
        assert figures["success"]["within"] and figures["price"]["within"]
        assert figures["latency_p99_s"]["world"] == pytest.approx(figures["latency_p99_s"]["log"], rel=0.15)
        assert (row["latency"]["spread"] is None) == (name == "bimodal")  # a table where one lognormal does not fit, only there
    if name != "drift":
        assert all(figure["within"] for row in report["tools"].values() for figure in row["reproduced"].values())
    assert (report["outages"] is not None) == (name == "shared_outage")


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate fewer calls, which is most of a calibration: two thousand tell a rate to half a point."""
    monkeypatch.setattr(judge, "MAX_TOOL_CALLS", 2_000)


@pytest.mark.usefixtures("brief")
def test_outages_that_tools_share_are_found_and_played(tmp_path: Path) -> None:
    records = list(shared_outage(np.random.default_rng(7)))
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    calibration = calibrate(path)
    assert set(calibration.report["outages"]["tools"]) == {"a", "b"}
    assert calibration.report["outages"]["lasts_s"] == pytest.approx(400.0, rel=0.25)
    well = np.array([record["status"] == "ok" for record in records]).reshape(-1, 2)
    world = calibration.scenario.build()
    task = next(number for number, other in enumerate(world.tasks) if len(other.candidates) == 2 and len(other.needs) == 2)
    played = []
    for seed in range(400):
        episode = world.episode(task, seed, Budget(), "record")
        for turn in range(6):
            episode.advance(max(0.0, 60.0 * turn - episode.now_s))
            calls = [episode.submit(0), episode.submit(1)]
            while episode.in_flight:
                episode.wait()
            played.append([call.status is Status.OK for call in calls])
    both = float((~np.array(played)).all(axis=1).mean())
    assert both == pytest.approx(float((~well).all(axis=1).mean()), abs=0.02)
    assert both > 5 * float((~np.array(played)).mean()) ** 2  # far more often than tools that fail on their own


def rush_hour(luck: np.random.Generator) -> Iterator[dict[str, Any]]:
    for number in range(CALLS):
        at = 600.0 * number
        busy = 9 * 3600.0 <= at % DAY_S < 17 * 3600.0
        yield record(at, (1.2 if busy else 0.4) * luck.lognormal(0.0, 0.3), luck.random() < 0.98, episode=f"e{number // 6}")


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize(
    ("log", "detail", "worst", "truth", "share"),
    [
        (daily_outage, "success depends on the time of day (0.0% from 2:00 to 4:00)", (2, 4), (0.0, 0.4), 2 / 24),
        (rush_hour, "durations depend on the time of day (1.22 s from 9:00 to 17:00)", (9, 17), (0.98, 1.2), 8 / 24),
    ],
)
def test_hours_of_the_day_are_named_and_fitted_apart(
    log: Any, detail: str, worst: tuple[int, int], truth: tuple[float, float], share: float, tmp_path: Path
) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(call) + "\n" for call in log(np.random.default_rng(7))))
    begin, end = worst
    (named,) = [line for line in calibrate(path).report["warnings"] if "time of day" in line]
    assert detail in named and f"--hours {begin},{end} and --hours {end},{begin}" in named
    usual = (0.98, 0.4)
    for hours, (success, median_s), part in ((worst, truth, share), ((end, begin), usual, 1 - share)):
        report = calibrate(path, hours=hours).report
        assert not [line for line in report["warnings"] if "time of day" in line]
        assert report["hours"]["share"] == pytest.approx(part, abs=0.02)
        row = report["tools"]["a"]
        assert row["reproduced"]["success"]["world"] == pytest.approx(success, abs=0.02)
        if success:
            assert row["latency"]["median_s"] == pytest.approx(median_s, rel=0.1)
    with pytest.raises(ConfigError, match="expected two different hours"):
        calibrate(path, hours=(5, 5))
