"""BTP's tables: what the plan allows, the curves, and what is compared."""

from pathlib import Path

import pytest

from costgym.experiments.papers.btp import (
    BASES,
    BUDGETS,
    CURVE_METRICS,
    PROTOCOLS,
    THRESHOLDS,
    USES,
    Point,
    check_curves,
    play_point,
)
from costgym.experiments.papers.paper import Tables
from costgym.experiments.papers.playing import enlarged
from costgym.experiments.papers.reproduce import reproduce
from costgym.experiments.play.results import EpisodeResult
from costgym.simulators.scenario import load_scenario


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tables, Path]:
    folder = tmp_path_factory.mktemp("btp")
    return reproduce("btp", episodes=6, seed=2, out=folder), folder


@pytest.mark.slow
def test_btp_never_overspends_and_costs_less() -> None:
    report = reproduce("btp", episodes=40, seed=3)
    for protocol in PROTOCOLS:
        rows = {row["agent"]: row for row in report["ours"] if row["protocol"] == protocol.name}
        tables = [row["agent"] for row in report["paper"] if "group" not in row]
        assert [name for name in rows if name in tables] == tables
        for base in BASES:
            assert rows[f"{base}+btp"]["budget_failure_rate"] == 0.0 < rows[base]["budget_failure_rate"]
            assert rows[f"{base}+btp"]["average_cost"] < rows[base]["average_cost"]
            for used, planned in (("uses", "planned_uses"), ("used_cost", "planned_cost")):
                assert 0 < rows[f"{base}+btp"][used] <= rows[f"{base}+btp"][planned] and planned not in rows[base]
        assert rows["react"]["budget"] == {"price": 20.0} and "pass_rate" in rows["react"]["ci95"]


@pytest.mark.slow
def test_the_curves_hold_every_point_and_meet_the_table_at_the_papers_setting(run) -> None:
    report, _ = run
    for protocol in PROTOCOLS:
        curves = {(row["agent"], row["curve"], row["at"]): row for row in report["curves"] if row["protocol"] == protocol.name}
        counts = {curve: sum(key[1] == curve for key in curves) for curve in ("R", "tau", "uses")}
        assert counts == {"R": 6 * len(BUDGETS), "tau": 3 * len(THRESHOLDS), "uses": 6 * (len(USES) + 1)}
        table = {row["agent"]: row for row in report["ours"] if row["protocol"] == protocol.name}
        for base in BASES:
            same = [(base, "R", 20.0), *((f"{base}+btp", *at) for at in (("R", 20.0), ("tau", 0.15), ("uses", 40.0)))]
            for agent, curve, at in same:
                point = curves[agent, curve, at]
                assert all(point[name] == table[agent][name] for name in CURVE_METRICS)
            passes = [curves[base, "R", at]["judged_pass_rate_under_budget"] for at in BUDGETS]
            assert passes == sorted(passes)
            assert len({curves[base, "R", at]["average_cost"] for at in BUDGETS}) == 1
            assert all(curves[f"{base}+btp", "R", at]["budget_failure_rate"] == 0.0 for at in BUDGETS)


@pytest.mark.slow
def test_btp_is_compared_with_its_plain_form_at_three_budgets_pair_by_pair(run) -> None:
    report, _ = run
    table = {(row["protocol"], row["agent"]): row for row in report["ours"]}
    assert len(report["differences"]) == 2 * 3 * 3
    for row in report["differences"]:
        ours, base = row["agent"].split(" less ")
        for metric, (low, high) in row["ci95"].items():
            assert low <= row[metric] <= high
            if row["R"] == 20.0:
                there = table[row["protocol"], ours][metric] - table[row["protocol"], base][metric]
                assert row[metric] == pytest.approx(there, abs=1e-6)
    assert all(row["uses_per_tool"] == pytest.approx(40, abs=0.1) for row in report["experience"])


@pytest.mark.slow
def test_a_point_played_again_gives_the_leaderboards_episodes(run) -> None:
    _, folder = run
    for protocol in PROTOCOLS:
        path = folder / protocol.name
        document = protocol.scenario(enlarged(load_scenario("marketplace"), 6)).model_dump_json()
        point = Point("dfsdt+btp", "R", 20.0, str(path / "experience.jsonl"))
        again = [EpisodeResult.from_json(line) for line in play_point((document, protocol, 6, 2), point)]
        results = [EpisodeResult.from_json(line) for line in (path / "btp" / "episodes.jsonl").read_text().splitlines()]
        assert again == [result for result in results if result.agent == "dfsdt+btp"]


def test_an_effect_that_is_not_there_is_not_seen() -> None:
    curves = [
        {"agent": "react+btp", "curve": curve, "at": at, "judged_pass_rate_under_budget": value, "average_cost": value}
        for curve, ats in (("R", (5.0, 20.0)), ("tau", (0.0, 0.15, 0.5)))
        for at, value in zip(ats, (0.5, 0.4, 0.5), strict=False)
    ]
    follows = [row["follows"] for row in check_curves(curves, ["react+btp"], "judged_pass_rate_under_budget", "judge")]
    assert follows == [False, False, False]
