"""What repeated runs under faults come to."""

import json
from pathlib import Path

from costgym.chaos import Chaos
from costgym.cli.share.proxy import report
from costgym.experiments.serve.proxy.call_log import read_runs, reliability
from costgym.simulators.errors import CostGymError
from tests.helpers.command_line import invoke


def fetch() -> int:
    return 7


def run(log: Path, name: str, success: bool | None, *, task: str = "one", faults: float = 1.0, calls: int = 2) -> None:
    options = {"prices": {"fetch": 2.0}, "budget": "price=20", "log": log, "time_scale": 0}
    with Chaos([fetch], scenario="marketplace-reliable", faults=faults, run=name, task=task, **options) as chaos:  # type: ignore[arg-type]
        for _ in range(calls):
            assert chaos.tools[0]() == 7
        chaos.success = success


def test_the_surface_has_a_row_for_each_condition(tmp_path: Path) -> None:
    log = tmp_path / "calls.jsonl"
    for number, success in enumerate([True, True, False, True]):
        run(log, f"a{number}", success)
    run(log, "b", True, faults=0.5)
    run(log, "c", None, faults=0.5)
    report = reliability(read_runs([log]))
    half, whole = report["surface"]
    assert (half["faults"], half["runs"], half["judged"], half["success"]["value"]) == (0.5, 2, 1, 1.0)
    assert (whole["budget"], whole["runs"], whole["price_per_run"], whole["price_per_success"]) == ("price 20", 4, 4.0, 16 / 3)
    assert [(row["k"], row["value"]) for row in whole["reliability"]] == [(1, 0.75), (2, 0.5), (3, 0.25), (4, 0.0)]
    assert all(row["ci95"][0] <= row["value"] <= row["ci95"][1] for row in whole["reliability"][:3])
    assert whole["fault_rate"]["value"] == 0.0
    assert report["without_verdict"] == ["c"] and not report["unfinished"]
    assert [(row["tool"], row["calls"], row["price"]) for row in report["tools"]] == [("fetch", 4, 8.0), ("fetch", 8, 16.0)]


def test_runs_of_several_tasks_count_within_their_task(tmp_path: Path) -> None:
    log = tmp_path / "calls.jsonl"
    for number in range(3):
        run(log, f"easy{number}", True, task="easy")
        run(log, f"hard{number}", False, task="hard")
    (row,) = reliability(read_runs([log]))["surface"]
    assert [row["value"] for row in row["reliability"]] == [0.5, 0.5, 0.5]  # not 1/8: failures lie in one task


def test_the_command_reports_and_takes_verdicts(tmp_path: Path) -> None:
    log = tmp_path / "calls.jsonl"
    run(log, "first", None)
    run(log, "second", True)
    assert "1 of 2 runs without a verdict" in invoke("proxy", "report", log).output
    assert invoke("proxy", "verdict", log, "--run", "first", "--failure").exit_code == 0
    done = invoke("proxy", "report", log, "--json", tmp_path / "found.json")
    assert "R(2) %" in done.output and "50 (9–91)" in done.output
    assert json.loads((tmp_path / "found.json").read_text())["surface"][0]["success"]["value"] == 0.5
    assert invoke("proxy", "verdict", log, "--run", "third", "--failure").exit_code == 2
    assert invoke("proxy", "report", tmp_path / "nothing.jsonl").exit_code == 2


def test_a_run_that_was_killed_is_named(tmp_path: Path) -> None:
    log = tmp_path / "calls.jsonl"
    run(log, "whole", True)
    lines = log.read_text().splitlines()
    log.write_text("\n".join(lines[:2]) + "\n")
    assert reliability(read_runs([log]))["unfinished"] == ["whole"]


def test_a_log_of_no_runs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    done = invoke("proxy", "report", tmp_path / "empty.jsonl")
    assert done.exit_code == 2 and "contain no runs" in done.stderr


def test_a_wrong_kind_in_any_field_of_a_log_is_named_with_its_line(tmp_path: Path) -> None:
    log = tmp_path / "calls.jsonl"
    run(log, "a", True)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    report([log])
    for number, line in enumerate(lines):
        for key in {*line, "price", "faults", "budget", "task", "scenario", "tool", "status", "imposed"}:
            for value in (None, True, 7, -1, 10**400, float("nan"), "x", ["x"], {"x": "x"}, {"price": "x"}):
                changed = [*lines[:number], {**line, key: value}, *lines[number + 1 :]]
                log.write_text("".join(f"{json.dumps(line)}\n" for line in changed))
                try:
                    report([log])
                except CostGymError as error:
                    assert "\n" not in str(error) and ("line" in str(error) or "no runs" in str(error)), (key, value)
