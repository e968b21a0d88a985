"""Episodes that clients play over `costgym serve --record DIR --episodes N` are a row of a leaderboard."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.served import RunRecorder
from costgym.experiments.serve.limits import Limits, Refused
from costgym.experiments.serve.server import Service
from costgym.simulators.errors import ConfigError
from tests.helpers.attack import http
from tests.helpers.command_line import invoke

PLAYED = ("--scenario", "marketplace-small", "--budget", "price=30", "--episodes", "6")


def recorder(folder: Path, **changed: Any) -> RunRecorder:
    options = {"scenario": "marketplace-small", "budgets": "price=30", "episodes": 6, **changed}
    return RunRecorder(folder, make_run_config(agents=["client:mine"], **options))


def served(recording: RunRecorder, *paths: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The answers to some requests; SESSION stands for the session of the answer before."""
    service = Service(recording.make_env, recording.row.track.env, limits=Limits(openings=1e6, rate=1e6), recorder=recording)
    answers: list[dict[str, Any]] = []
    session = ""
    for path, body in paths:
        text = json.dumps({**body, **({} if path == "/reset" else {"session_id": session})})
        answers.append(json.loads(asyncio.run(http(service, "POST", path, text.encode()))[1]))
        session = (answers[-1].get("metadata") or {}).get("session_id", session)
    return answers


FINISH = ("/step", {"action": {"name": "finish", "arguments": {"answer": "x"}}})


def test_what_clients_play_is_a_row_of_a_board_that_anybody_verifies(tmp_path: Path) -> None:
    run, entry, board = tmp_path / "run", tmp_path / "entry", tmp_path / "board"
    with recorder(run) as recording:
        served(recording, ("/reset", {}), FINISH, ("/reset", {}), ("/close", {}), ("/reset", {}))  # the last goes on at the end
    with recorder(run) as recording:  # a server that was killed hands out what it had not recorded
        answers = served(recording, *(("/reset", {}), FINISH) * 4, ("/reset", {}))
        assert "all 6 episodes" in answers[-1]["detail"]
        assert recording.is_complete
    assert "6 episodes verified, 0 problems" in invoke("verify", str(run)).stdout
    assert invoke("submit", "pack", str(run), "--out", str(entry), "--name", "Mine", "--contact", "a@b.example").exit_code == 0
    assert invoke("leaderboard", *PLAYED, "--agents", "react", "--out", str(board), "--quiet").exit_code == 0
    assert invoke("leaderboard", "--out", str(board), "--add", str(entry)).exit_code == 0
    rows = {row["agent"]: row for row in json.loads((board / "leaderboard.json").read_text())["rows"]}
    mine = rows["client:mine (Mine)"]
    assert (mine["episodes"], mine["crashed_episodes"], mine["metered"]) == (6, 1, False)
    assert "its own loop and model" in (board / "index.html").read_text()


def test_a_server_that_hands_out_episodes_refuses_other_choices(tmp_path: Path) -> None:
    with recorder(tmp_path / "run") as recording:
        (answer,) = served(recording, ("/reset", {"seed": 7}))
        assert answer["detail"] == "seed: this server hands out its episodes in order; reset without it"
        (answer,) = served(recording, ("/reset", {}))
        assert "session_id" in answer["metadata"]  # a refused reset takes no episode
    with pytest.raises(ConfigError, match="plays one row"):
        recorder(tmp_path / "other", budgets="price=10,20")
    with recorder(tmp_path / "run") as recording, pytest.raises(Refused, match="all 6"):
        for _ in range(7):
            recording.begin(recording.make_env())
