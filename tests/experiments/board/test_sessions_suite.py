"""The suite `sessions`: its board is ranked by the share of the value, and its figures follow from the recorded actions."""

import json
from pathlib import Path

from tests.helpers.command_line import invoke


def test_a_board_of_sessions_is_played_shown_and_verified(tmp_path: Path) -> None:
    out = tmp_path / "board"
    played = invoke(
        "leaderboard", "--suite", "sessions", "--agents", "do-nothing,paced,informed-paced", "--episodes", 3, "--out", out
    )
    assert played.exit_code == 0, played.output
    document = json.loads((out / "leaderboard.json").read_text())
    shares = {row["agent"]: row["value_share"] for row in document["rows"]}
    assert shares["do-nothing"] == 0.0 < shares["paced"] < 1.0
    assert "Value" in played.output and "informed-paced" in played.output
    verified = invoke("verify", out)
    assert verified.exit_code == 0, verified.output
    assert "0 problems" in verified.output
