"""Tokens are counted where the model answers; rows whose tokens nobody but the agent counted are ranked apart."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from costgym.agents.models.base import ASSISTANT, Message, Reply
from costgym.agents.toolplanner.simulated import SimulatedToolPlanner
from costgym.experiments.board.reruns.process_agent import Meter
from costgym.experiments.board.reruns.rerun import rerun
from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.submissions.submission import pack
from costgym.experiments.board.verify import verify
from costgym.experiments.leaderboard import add, run
from costgym.experiments.pages.table import print_table
from costgym.simulators.calls import Usage
from costgym.simulators.errors import InfrastructureError

SECRET = "the same in every run of the tests\n"
NO_USAGE = """
import json

from costgym.agents import make_agent
from costgym.agents.base import TEXT, Agent


class Free(Agent):
    env_id = TEXT

    def __init__(self):
        self.inner = make_agent("dfsdt", TEXT)
        self.handles = self.inner.handles

    def reset(self, seat, observation, info, seed):
        self.inner.reset(seat, observation, info, seed)

    def act(self, observation, info):
        action = json.loads(self.inner.act(observation, info))
        return json.dumps({**action, "usage": {"input_tokens": 0, "output_tokens": 0}})


class Mute(Free):
    handles = ()

    def __init__(self):
        pass

    def reset(self, seat, observation, info, seed):
        pass

    def act(self, observation, info):
        return '{"name": "finish", "arguments": {"answer": "no"}}'
"""


def reply(read: int, written: int) -> Reply:
    return Reply(Message(ASSISTANT, "text"), Usage(read, written))


def usage_of(action: str) -> tuple[int, int]:
    usage = json.loads(action)["usage"]
    return usage["input_tokens"], usage["output_tokens"]


def test_an_action_pays_at_least_for_the_replies_behind_it_and_what_it_reports_above_counts_later() -> None:
    meter, call = Meter(), '{"name": "tool", "arguments": {}}'
    assert meter.charge(call) == call  # no model of ours answered: the environment counts
    meter.add(reply(100, 10))
    meter.add(reply(150, 20))
    assert usage_of(meter.charge(call)) == (250, 30)
    assert usage_of(meter.charge(call)) == (0, 0)
    meter.add(reply(50, 5))
    more = '{"name": "tool", "arguments": {}, "usage": {"input_tokens": 80, "output_tokens": 2}}'
    assert usage_of(meter.charge(more)) == (80, 5)
    meter.add(reply(40, 5))
    assert usage_of(meter.charge(call)) == (10, 5)  # 30 were paid for before
    exact = '{"name": "tool", "arguments": {}, "usage": {"input_tokens": 7, "output_tokens": 7}}'
    meter.add(reply(7, 7))
    assert meter.charge(exact) == exact


def test_tokens_of_a_text_that_calls_nothing_are_owed_by_the_next_action() -> None:
    meter = Meter()
    meter.add(reply(100, 10))
    assert [meter.charge(text) for text in ("nonsense", "[" * 100_000, "[]", 3)] == ["nonsense", "[" * 100_000, "[]", 3]
    assert json.loads(meter.charge(" finish ")) == {"name": "finish", "usage": Usage(100, 10).document()}


def test_zero_usage_of_an_agents_own_code_is_charged_in_a_rerun_and_unmetered_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = tmp_path / "code"
    code.mkdir()
    monkeypatch.chdir(code)
    (code / "free.py").write_text(NO_USAGE)
    (tmp_path / "secret").write_text(SECRET)
    terms = {"budgets": "price=30", "episodes": 4}
    agents = ["react", "dfsdt", "free.py:Free", "free.py:Mute"]
    board = run(make_run_config("quick", agents=agents, **terms), tmp_path / "board").folder  # type: ignore[arg-type]
    rows = {row["agent"]: row for row in json.loads((board / "leaderboard.json").read_text())["rows"]}
    assert [rows[name].get("metered") for name in agents] == [None, None, False, False]
    assert rows["free.py:Free"]["average_tokens"] < rows["dfsdt"]["average_tokens"] / 3
    packed = pack(board, tmp_path / "packed", "A", "a@example.org", agents[1:])
    # handed in, not even our own agent's tokens are counted by anybody but the one who handed it in
    added = {row["agent"]: row for row in add(board, packed)}
    assert {row["metered"] for row in added.values()} == {False}
    ranked = [row["agent"] for row in json.loads((board / "leaderboard.json").read_text())["rows"]]
    assert set(ranked[:2]) == {"react", "dfsdt"}  # whatever the others come to
    page = (board / "index.html").read_text()
    assert ">u1<" in page and "Unmetered (u1, u2, …)" in page and "unmetered" in page
    console = Console(file=io.StringIO(), width=100)
    print_table(json.loads((board / "leaderboard.json").read_text()), console)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    start = next(number for number, line in enumerate(lines) if "unmetered" in line)
    assert lines[start + 1].split()[0] == "1" and "react" in "".join(lines[start - 2 : start])
    assert verify(board).verified
    rerun(packed, tmp_path / "secret", tmp_path / "again", code=code, worlds=1)
    added = {row["agent"]: row for row in add(board, packed, rerun=tmp_path / "again")}
    # in the rerun the model answered on the judge's side: dfsdt's tokens are dfsdt's, whatever is reported
    assert added["free.py:Free (A)"]["average_tokens"] == added["dfsdt (A)"]["average_tokens"]
    assert [added[f"{name} (A)"].get("metered") for name in agents[1:]] == [None, None, False]
    assert verify(board).verified and verify(tmp_path / "again").verified


def test_a_back_end_of_the_judges_that_fails_makes_an_episode_void_and_the_rerun_verifies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = run(make_run_config("quick", agents=["react"], budgets="price=30", episodes=4), tmp_path / "board").folder
    packed = pack(board, tmp_path / "packed", "A", "a@example.org")
    (tmp_path / "secret").write_text(SECRET)
    complete, asked = SimulatedToolPlanner.complete, list[int]()

    def down(self: Any, *arguments: Any) -> Any:
        asked.append(1)
        if 5 <= len(asked) <= 7:  # the three tries of one episode
            raise InfrastructureError("server down")
        return complete(self, *arguments)

    # react plays in another process; its model answers here, and so it is counted, and fails, here
    monkeypatch.setattr(SimulatedToolPlanner, "complete", down)
    rerun(packed, tmp_path / "secret", tmp_path / "again", worlds=1)
    monkeypatch.undo()
    assert len(asked) > 7
    [row] = add(board, packed, rerun=tmp_path / "again")
    assert (row["void_episodes"], row["missing_episodes"], row["episodes"]) == (1, 0, 4)
    assert verify(tmp_path / "again").verified and verify(board).verified
