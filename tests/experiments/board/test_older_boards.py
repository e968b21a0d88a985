"""A board of an older release verifies, though its metrics had other names; a figure of it may not differ."""

from pathlib import Path
from typing import Any

import pytest

from costgym.experiments.board.submissions.differences import compare_documents
from costgym.simulators import __version__
from costgym.simulators.files import json_text

PASS = {"name": "Pass", "unit": "%", "meaning": "Share of episodes whose answer passes."}


def board(words: dict[str, Any], price: float = 1.0, version: str = "0.2.0") -> dict[str, Any]:
    track = {"name": "numbers", "metrics": {"pass_rate": words}}
    return {"version": version, "tracks": [track], "conditions": [], "rows": [], "spent": price}


@pytest.mark.parametrize(
    ("file", "problems"),
    [
        (board(PASS), 0),
        (board(PASS, price=2.0), 1),
        (board({"name": "Pass"}), 1),  # not the same fields
        (board(PASS, version="9.9"), 1),  # not the release that the run says
    ],
)
def test_words_of_another_release_stand_and_figures_do_not(tmp_path: Path, file: dict[str, Any], problems: int) -> None:
    path = tmp_path / "leaderboard.json"
    path.write_text(json_text(file))
    derived = board({**PASS, "name": "Success"})
    assert len(compare_documents(path, derived)) == problems


def test_words_of_this_release_may_not_differ(tmp_path: Path) -> None:
    path = tmp_path / "leaderboard.json"
    path.write_text(json_text(board(PASS, version=__version__)))
    assert len(compare_documents(path, board({**PASS, "name": "Success"}, version=__version__))) == 1
