"""What `costgym leaderboard` prints: a table for a terminal, other formats for a pipe, and the first track early."""

import csv
import io
import json
from pathlib import Path

import pytest

from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.leaderboard import first_track, run
from tests.helpers.command_line import invoke

ASKED = ("--agents", "greedy,react", "--budgets", "price=20", "--episodes", "4", "--jobs", "1")


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("formats") / "board"
    assert invoke("leaderboard", *ASKED, "--out", out, "--quiet").exit_code == 0
    return out


def test_a_pipe_gets_the_asked_format_alone(board: Path) -> None:
    def printed(*options: str) -> str:
        done = invoke("leaderboard", *ASKED, "--out", board, *options)
        assert done.exit_code == 0 and f"page: {board / 'index.html'}" in done.stderr
        return done.stdout

    document = json.loads((board / "leaderboard.json").read_text())
    assert json.loads(printed("--format", "json")) == document
    lines = list(csv.DictReader(io.StringIO(printed("--format", "tsv")), delimiter="\t"))
    assert [line["agent"] for line in lines] == ["greedy", "react"]
    assert (board / "leaderboard.csv").read_text().count("\n") == len(lines) + 1
    narrow, wide = printed("--format", "markdown"), printed("--format", "markdown", "--wide")
    assert narrow.count("| # | Agent | Success % |") == wide.count("| # | Agent | Success % |") == 2
    assert "Time, s" in wide and "Time, s" not in narrow


def test_an_unknown_format_is_refused_before_anything_is_played(tmp_path: Path) -> None:
    done = invoke("leaderboard", "--format", "yaml", "--out", tmp_path / "board")
    assert done.exit_code == 2 and "known: json, markdown, table, tsv" in done.stderr and not (tmp_path / "board").exists()


def test_the_first_track_stands_while_the_others_are_played(board: Path, tmp_path: Path) -> None:
    config = make_run_config(agents=["greedy", "react"], budgets="price=20", episodes=4)
    seen = []

    def update(done: int, total: int) -> None:
        if done in (3, 4):
            seen.append(first_track(tmp_path / "run"))

    whole = run(config, tmp_path / "run", progress=update).document
    early, done = seen
    assert early is None and done is not None
    assert done["rows"] == [row for row in whole["rows"] if row["track"] == "numbers"]
