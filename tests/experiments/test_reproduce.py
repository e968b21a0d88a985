"""The papers' tables beside ours: rows of one shape, deterministic, with intervals; the effects that must follow."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from shared_data import shared

from costgym import ConfigError, UnknownName
from costgym.experiments.decisions import ACCURACIES
from costgym.experiments.instructions import follow, instruction_rows, tag_rows, wins
from costgym.experiments.published import PUBLISHED, published
from costgym.experiments.reproduce import CANDIDATES, print_reproduction, reproduce


def test_published_figures_are_shares_with_their_sources() -> None:
    for name in PUBLISHED:
        for row in published(name):
            assert row["source"] and row["agent"] and row["ci95"] == {}
            for key, value in row.items():
                if key.startswith(("p_", "tag_")) or "rate" in key:
                    assert 0 <= value <= 1
    published("btp")[0]["agent"] = "changed"
    assert published("btp")[0]["agent"] == "react"


def test_deer_seen_and_unseen_tools() -> None:
    found = reproduce("deer", episodes=200)
    assert found["paper"] == published("deer")
    assert {row["split"] for row in found["ours"]} == {"valid", "test"}
    for row in found["ours"]:
        assert row["episodes"] == 200
        for name in ACCURACIES:
            low, high = row["ci95"][name]
            assert low <= row[name] <= high
    assert reproduce("deer", episodes=200) == found


def test_deer_on_recorded_samples() -> None:
    rows = reproduce("deer", data=str(shared("data/toolbench_family/tooldeer")))["ours"]
    rule = {row["split"]: row for row in rows if row["agent"] == "deer-rule"}
    assert rule["valid"]["episodes"] == 75 and rule["test"]["episodes"] == 80
    assert "p_no_search" not in rule["test"] and rule["valid"]["p_ds"] > 0.6


@pytest.mark.slow
def test_ecoact_saves_most_where_tools_are_many() -> None:
    rows = reproduce("ecoact", episodes=40)["ours"]
    change = {row["group"]: row["cost_change"] for row in rows if row["agent"] == "react+ecoact"}
    assert list(change) == list(CANDIDATES)
    assert change["more than 20"] < -0.3 < change["11 to 20"] < change["up to 10"]


@pytest.mark.slow
def test_btp_never_overspends_and_costs_less() -> None:
    found = reproduce("btp", episodes=40, seed=3)
    rows = {row["agent"]: row for row in found["ours"]}
    assert list(rows) == [row["agent"] for row in found["paper"]]
    for base in ("react", "dfsdt", "tot-dfs"):
        assert rows[f"{base}+btp"]["budget_failure_rate"] == 0.0 < rows[base]["budget_failure_rate"]
        assert rows[f"{base}+btp"]["average_cost"] < rows[base]["average_cost"]
    assert rows["react"]["budget"] == {"price": 20.0} and "pass_rate" in rows["react"]["ci95"]


def test_a_run_that_is_kept_is_continued(tmp_path) -> None:
    first = reproduce("btp", episodes=4, out=tmp_path)
    steps: list[tuple[int, int]] = []
    assert reproduce("btp", episodes=4, out=tmp_path, progress=lambda done, total: steps.append((done, total))) == first
    assert steps == [(36, 36)]


@pytest.mark.slow
def test_match_rises_most_where_tags_are_used() -> None:
    rows = instruction_rows(60, levels=("tool", "hybrid"))
    match = {(row["agent"], row["level"]): row["match_rate"] for row in rows}
    for level in ("tool", "hybrid"):
        plain, full = match["dfsdt", level], match["toolplanner", level]
        assert full > plain + 0.2
        assert match["toolplanner-no-path", level] - plain > match["toolplanner-no-tags", level] - plain
    for row in rows:
        assert all(low <= row[key] <= high for key, (low, high) in row["ci95"].items() if isinstance(row.get(key), float))


def test_extracted_tags_beat_the_retriever_where_names_are_given() -> None:
    f1 = {(row["agent"], row["level"]): row["tag_f1"] for row in tag_rows(60, levels=("tool", "hybrid"))}
    for level in ("tool", "hybrid"):
        assert f1["tag extraction", level] > max(f1[f"retriever@{count}", level] for count in (1, 3, 5))


def test_winning_is_antisymmetric() -> None:
    ours = [f.result for f in follow("toolplanner", "tool", 25)]
    theirs = [f.result for f in follow("dfsdt", "tool", 25)]
    assert all(wins(a, b) + wins(b, a) == 1.0 for a, b in zip(ours, theirs, strict=True))
    assert {wins(a, a) for a in ours} == {0.5}


@pytest.mark.parametrize("name", ["deer", "toolplanner"])
def test_both_tables_are_printed_with_their_sources(name: str) -> None:
    console = Console(file=io.StringIO(), width=200)
    print_reproduction(name, reproduce(name, episodes=8), console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert f"{name}: paper" in text and f"{name}: ours" in text and "source:" in text and "simulated" in text and "[" in text


def test_what_cannot_be_reproduced_is_a_clear_error() -> None:
    with pytest.raises(UnknownName, match="ecoact"):
        reproduce("eco")
    with pytest.raises(ConfigError, match="episodes"):
        reproduce("btp", episodes=0)
    with pytest.raises(ConfigError, match="deer"):
        reproduce("btp", data="x")
