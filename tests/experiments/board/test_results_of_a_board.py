"""A finished board read back: its document, and its episodes as results."""

import json

import pytest

from costgym.experiments.leaderboard import Leaderboard, make_run_config, run
from costgym.simulators.errors import ConfigError, DataError


def test_the_results_of_a_board_have_the_rows_of_the_board(tmp_path):
    made = run(make_run_config("quick", agents=["greedy", "random"], budgets="price=10,20", episodes=8), tmp_path / "b")
    loaded = Leaderboard.load(tmp_path / "b")
    assert loaded.document == json.loads((made.folder / "leaderboard.json").read_text(encoding="utf-8"))
    results = loaded.results
    assert len(results) == 32 and results.split == "test" == made.document["tracks"][0]["scenario"]["split"]
    rows = {(row["agent"], row["budget"]["price"]): row for row in made.document["rows"]}
    for row in results.rows.values():
        published = rows.pop((row["agent"], row["budget"]["price"]))
        figures = {name: value for name, value in row.items() if name not in ("split", "fault_robustness", "verified")}
        assert {name: published[name] for name in figures} == figures
    assert not rows
    assert results.compare("greedy, 20 credits", "random, 20 credits").episodes == 8


def test_a_folder_that_is_no_finished_board_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="not a leaderboard run"):
        Leaderboard.load(tmp_path)
    run(make_run_config("quick", agents=["random"], budgets="price=10", episodes=2), tmp_path / "b")
    with (tmp_path / "b" / "episodes.jsonl").open("a", encoding="utf-8") as store:
        store.write("{}\n")
    with pytest.raises(DataError, match="line 3"):
        _ = Leaderboard.load(tmp_path / "b").results
    (tmp_path / "b" / "leaderboard.json").write_text("[]", encoding="utf-8")
    with pytest.raises(DataError, match="format"):
        Leaderboard.load(tmp_path / "b")
    (tmp_path / "b" / "leaderboard.json").unlink()
    with pytest.raises(ConfigError, match="has not ended"):
        Leaderboard.load(tmp_path / "b")
