"""The suite that varies stress: its rows, its page, and its verification."""

import json
from pathlib import Path

import pytest

from costgym.experiments.board.conditions import CALM
from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.submissions.submission import validate_run
from costgym.experiments.leaderboard import run
from costgym.experiments.play.metric_registry import brief
from costgym.simulators.stress import Stress


@pytest.fixture(scope="module")
def board(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("robustness") / "board"
    run(make_run_config("robustness", agents=["greedy", "random"], episodes=3, seed=2), out)
    return out


def document(board: Path) -> dict:
    return json.loads((board / "leaderboard.json").read_text())


def test_every_row_says_what_it_keeps_of_the_world_without_faults(board):
    rows = document(board)["rows"]
    assert CALM.keys() == Stress.model_fields.keys() and len(rows) == 2 * 18
    calm = {row["agent"]: row for row in rows if all(row[name] == CALM[name] for name in CALM)}
    assert all(row["fault_robustness"] is None for row in calm.values())
    for row in rows:
        if row is not calm[row["agent"]]:
            expected = row["pass_rate_under_budget"] / calm[row["agent"]]["pass_rate_under_budget"]
            assert row["fault_robustness"] == pytest.approx(expected)
    hardest = [row for row in rows if (row["failures"], row["rate_limits"], row["latency"]) == (3.0, 20.0, 4.0)]
    assert all(row["fault_robustness"] < 1 for row in hardest)


@pytest.mark.slow
def test_the_run_is_verified_like_any_other_and_an_edited_figure_is_named(board, tmp_path):
    assert validate_run(board).problems == ()
    text = (board / "leaderboard.json").read_text()
    document = json.loads(text)
    document["rows"][3]["fault_robustness"] = 0.99
    (board / "leaderboard.json").write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    try:
        assert any("fault_robustness" in problem for problem in validate_run(board).problems)
    finally:
        (board / "leaderboard.json").write_text(text)


def test_the_page_says_what_each_fault_costs_and_opens_on_the_world_as_it_is(board):
    page = (board / "index.html").read_text()
    section = page.partition('id="section-fault_robustness"')[2].partition("</section>")[0]
    rows = json.loads((board / "leaderboard.json").read_text())["rows"]
    assert section.count('<th scope="row">') == len({row["agent"] for row in rows})
    for row in rows:
        if row["fault_robustness"] is not None:
            assert f">{brief(row['fault_robustness'], 'rate')}<" in section
    assert "What faults cost" in page and "rate limits × 20" in section
    chosen = page[page.index('<select name="condition">') :].split("selected>", 1)[1].split("<", 1)[0]
    assert chosen.startswith("failures × 1, rate limits × 1, latency × 1")
