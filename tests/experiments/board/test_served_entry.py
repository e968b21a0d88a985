"""Episodes of a leaderboard that are played over the service become a run: ranked, verified, packed and added."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.served_entry import EntryRecorder, entry_config
from costgym.experiments.board.submissions.submission import pack, validate
from costgym.experiments.board.verify import verify
from costgym.experiments.leaderboard import add, run
from costgym.experiments.serve.limits import Limits, Refused
from costgym.experiments.serve.sessions import Sessions
from costgym.simulators.errors import ConfigError, DataError, UnknownName
from tests.helpers.command_line import invoke
from tests.helpers.full_disk import no_file_longer_than

ENV = "costgym/MarketplaceChat-v0"
FINISH = '{"name": "finish", "arguments": {"answer": "x"}}'


@pytest.fixture
def board(tmp_path: Path) -> Path:
    return run(make_run_config(agents=["react"], budgets="price=10,20", episodes=3), tmp_path / "board").folder


def open_sessions(recorder: EntryRecorder) -> Sessions:
    return Sessions(recorder.make_env, Limits(), 0, lambda: 0.0, recorder)


def play(sessions: Sessions, answer: str = FINISH) -> None:
    session: Any = sessions.open()
    session.reset({})
    session.act("no call")
    session.act(answer)
    sessions.close(session)


def full(line: str) -> None:
    raise DataError("episodes.jsonl", "the disk is full")


def test_an_episode_that_cannot_be_written_is_refused_and_handed_out_again(
    board: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "mine"
    with EntryRecorder(mine, entry_config(board, ENV, "ours", {"price": 10.0}), ENV) as recorder:
        sessions = open_sessions(recorder)
        play(sessions)
        (trajectories,) = (mine / "trajectories").rglob("*.jsonl")
        kept = trajectories.read_bytes()
        with no_file_longer_than(len(kept) + 10), pytest.raises(Refused, match=r"not recorded.*cannot be written"):
            play(sessions)
        with monkeypatch.context() as broken, pytest.raises(Refused, match=r"not recorded.*full"):
            broken.setattr(recorder._log._results, "append", full)  # the trajectory fits, the result does not
            play(sessions)
        assert recorder.missing == 2 and trajectories.read_bytes() == kept
        play(sessions)
        play(sessions)
    assert verify(mine).verified


def test_what_was_played_over_the_service_is_ranked_verified_packed_and_added(board: Path, tmp_path: Path) -> None:
    mine, config = tmp_path / "mine", entry_config(board, ENV, "ours", {"price": 20.0})
    with EntryRecorder(mine, config, ENV) as recorder:
        sessions = open_sessions(recorder)
        play(sessions)
        sessions.open().reset({})  # the second is left before its end
        play(sessions)
        with pytest.raises(Refused, match="all 3 episodes"):
            play(sessions)
        assert recorder.missing == 1
    assert not (mine / "leaderboard.json").exists()
    with EntryRecorder(mine, config, ENV) as recorder:  # another server does not hand it out again
        assert recorder.missing == 0
        with pytest.raises(Refused):
            play(open_sessions(recorder))
    [row] = json.loads((mine / "leaderboard.json").read_text())["rows"]
    assert row["crash_reasons"] == {"the client left this episode before its end": 1} and row["episodes"] == 3
    assert (mine / "attempts.jsonl").read_text() == "0\n1\n2\n" and row["metered"] is False
    assert verify(mine).verified
    packed = pack(mine, tmp_path / "packed", "ours", "us@example.org")
    assert validate(packed).verified
    (row,) = add(board, packed)
    assert (row["agent"], row["episodes"], row["verified"]) == ("ours (ours)", 3, "replayed")
    assert verify(board).verified
    trajectory = next((mine / "trajectories").rglob("*.jsonl"))
    trajectory.write_text(trajectory.read_text().replace('"share":0.0', '"share":1.0', 1))
    assert not verify(mine).verified


def test_a_client_cannot_choose_what_it_plays(board: Path, tmp_path: Path) -> None:
    with EntryRecorder(tmp_path / "mine", entry_config(board, ENV, "ours", {"price": 10.0}), ENV) as recorder:
        session = open_sessions(recorder).open()
        for asked in ({"seed": 0}, {"index": 0}, {"task": 0}):
            with pytest.raises(Refused, match="one by one"):
                session.reset(asked)


@pytest.mark.parametrize(
    ("env_id", "budget", "error"),
    [(ENV, {"price": 11.0}, ConfigError), (ENV, None, ConfigError), ("costgym/Marketplace-v0", {"price": 10.0}, UnknownName)],
)
def test_a_condition_that_the_leaderboard_does_not_have_is_refused(
    board: Path, env_id: str, budget: dict[str, float] | None, error: type[Exception]
) -> None:
    with pytest.raises(error):
        entry_config(board, env_id, "ours", budget)


def test_the_command_needs_a_folder_and_takes_no_other_world(board: Path, tmp_path: Path) -> None:
    pytest.importorskip("mcp")
    assert "--record" in invoke("serve", "--board", str(board)).stderr
    done = invoke("serve", "--board", str(board), "--record", str(tmp_path / "mine"), "--scenario", "storm")
    assert "the leaderboard determines the world" in done.stderr and done.exit_code == 2
