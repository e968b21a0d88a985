"""Logs with a truth that the world's models do not have: what the fit cannot reproduce is named, what it can is found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("scipy", reason="the extra `train` is not installed")

from costgym.experiments.fit.calibration.calibrate import calibrate

CALLS = 1_200
DAY_S = 86_400.0


def record(at: float, seconds: float, well: bool, tool: str = "a", status: str = "server_error", **more: Any) -> dict[str, Any]:
    told = "ok" if well else status
    return {"tool": tool, "started": at, "latency_s": seconds, "status": told, "price": 1.0, **more}


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
    "bimodal": ("median latency is", "90 % latency is", "99 % latency is"),
    "daily_outage": ("success depends on the time of day",),
    "shared_outage": ("a and b fail at the same times",),
    "retries": ("of the failed calls are tried again at once",),
    "rate_limits": (),
    "drift": ("success drifts, from",),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMED)
def test_what_cannot_be_reproduced_is_named(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.jsonl"
    records = globals()[name](np.random.default_rng(7))
    path.write_text("".join(json.dumps(each) + "\n" for each in records))
    report = calibrate(path).report
    told = [*report["not_reproduced"], *report["warnings"]]
    for words in NAMED[name]:
        assert any(words in line for line in told), told
    expected = {words for other, named in NAMED.items() if other != name for words in named}
    assert not [line for line in told for words in expected if words in line]  # and nothing that is not there
    for row in report["tools"].values():
        figures = row["reproduced"]
        assert figures["success"]["within"] and figures["price"]["within"]
        if name in ("rate_limits", "daily_outage", "shared_outage", "retries"):  # lognormal durations: p99 within 15 %
            assert figures.get("latency_p99_s", {"log": 1.0, "world": 1.0})["world"] == pytest.approx(
                figures.get("latency_p99_s", {"log": 1.0})["log"], rel=0.15
            )
    if name == "rate_limits":
        assert all(figure["within"] for row in report["tools"].values() for figure in row["reproduced"].values())
