"""Agents that are run again on secret seeds, and the alarms that ring for those that knew too much."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from costgym.experiments.leaderboard.board import run
from costgym.experiments.leaderboard.reruns.process_agent import ProcessAgent
from costgym.experiments.leaderboard.reruns.rerun import commitment_of, new_secret, rerun, seed_of
from costgym.experiments.leaderboard.reruns.wire import Patience, receive, send
from costgym.experiments.leaderboard.run_config import make_run_config
from costgym.experiments.leaderboard.submissions.submission import add, pack
from costgym.experiments.verify import verify
from costgym.simulators.errors import ConfigError, DataError

MEMO = """
import json
from pathlib import Path
from costgym.agents import Agent
from costgym.experiments.trajectories.record import digest


class Memo(Agent):
    def __init__(self):
        self.known, self.met = {}, {}
        for line in (Path(__file__).parent / "oracle.jsonl").read_text().splitlines()[1:]:
            record = json.loads(line)
            self.known.setdefault(record["observations"][0], []).append(record["actions"])

    def reset(self, seat, observation, info, seed):
        key = digest(observation)
        plans = self.known.get(key, [[]])
        self.met[key] = self.met.get(key, -1) + 1
        self.plan, self.finish = list(plans[self.met[key] % len(plans)]), seat.finish_action

    def act(self, observation, info):
        action = self.plan.pop(0) if self.plan else self.finish
        return action if info["action_mask"][action] else self.finish
"""


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    new_secret(tmp_path / "secret.txt")
    return tmp_path / "secret.txt"


def test_a_secret_is_drawn_once_and_must_fit_what_was_published(secret: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="used once"):
        new_secret(secret)
    assert len(commitment_of(secret)) == 64 and 0 <= seed_of(secret) < 2**60
    with pytest.raises(ConfigError, match="does not fit"):
        rerun(tmp_path, secret, tmp_path / "out", commitment="0" * 64)


@pytest.mark.parametrize(("suite", "other"), [("quick", "deer-rule"), ("btp", "cheapest")])
def test_an_honest_agent_agrees_and_one_that_learnt_the_seeds_by_heart_falls(
    suite: str, other: str, secret: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the default suite plays one decision a step, BTP's calls side by side
    code = tmp_path / "code"
    code.mkdir()
    monkeypatch.chdir(code)
    terms = {"budgets": "price=20", "episodes": 60}
    oracle = run(make_run_config(suite, agents=["oracle"], **terms), tmp_path / "oracle").folder  # type: ignore[arg-type]
    shutil.copy(oracle / "trajectories/numbers/oracle.price=20.jsonl", code / "oracle.jsonl")
    (code / "memo.py").write_text(MEMO)
    names = ["memo.py:Memo", "greedy", "react", other]
    board = run(make_run_config(suite, agents=names, **terms), tmp_path / "board").folder  # type: ignore[arg-type]
    packed = pack(board, tmp_path / "packed", "A", "a@example.org")
    rows = {row.agent: row for row in rerun(packed, secret, tmp_path / "again", commitment_of(secret), code)}
    assert [rows[name].agrees for name in names] == [False, True, True, True]
    assert rows["memo.py:Memo"].claimed > 0.9 > rows["memo.py:Memo"].rerun + 0.2
    assert verify(tmp_path / "again").verified
    config = json.loads((tmp_path / "again" / "run.json").read_text())
    assert config["seed"] == seed_of(secret)
    # what it knew by heart shows in its luck, too
    added = {row["agent"]: row.get("alarms", []) for row in add(board, packed)}
    assert "standard deviations" in added["memo.py:Memo (A)"][0]
    assert [added[f"{name} (A)"] for name in names[1:]] == [[], [], []]
    assert "Alarm, memo.py:Memo (A)" in (board / "numbers.html").read_text()
    assert verify(board).verified


def test_a_process_that_fails_says_why(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("raise SystemError('no')\n")
    with pytest.raises(DataError, match="SystemError: no"):
        ProcessAgent("bad.py:Bad", "costgym/Marketplace-v0", tmp_path)


def test_half_an_answer_is_not_waited_for_beyond_the_deadline() -> None:
    inner, outer = os.pipe()
    with os.fdopen(inner, "rb") as pipe, os.fdopen(outer, "wb") as other:
        send(other, b"whole")
        assert receive(Patience(pipe, 5.0)) == b"whole"
        other.write((9).to_bytes(8, "big") + b"half")
        other.flush()
        with pytest.raises(TimeoutError):
            receive(Patience(pipe, 0.05))
