"""OpenCATP's part of `costgym bench`."""

from __future__ import annotations

import io

import pytest

pytest.importorskip("numba", reason="needs the extra `train`")

from rich.console import Console

from costgym.experiments.benchmarking import opencatp as bench_opencatp


@pytest.mark.slow
def test_the_bench_measures_both_views_and_whole_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_opencatp, "SIZES", (2, 16))
    monkeypatch.setattr(bench_opencatp, "SHORTEST_S", 0.001)
    report = bench_opencatp.measure_opencatp(0, plans=50)
    assert [(row["kind"], row["envs"]) for row in report["rows"]] == 2 * [("scalar", 1), ("native", 2), ("native", 16)]
    assert all(row["steps_per_second"] > 0 for row in report["rows"])
    assert all(0 < memory["state_bytes_per_env"] <= 4096 for memory in report["memory"].values())
    assert list(report["plans_per_second"]) == ["array", "token lists", "plans", "one by one"]
    shown = io.StringIO()
    bench_opencatp.print_opencatp(report, Console(file=shown, width=200))
    assert "Whole plans scored a second" in shown.getvalue()
