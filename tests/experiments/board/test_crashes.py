"""An agent's crash is that agent's failure in that episode, and the run goes on; a void comes from the world's side alone."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import costgym
from costgym.agents import Agent, make_agent
from costgym.experiments.board.epochs.playing import own_code
from costgym.experiments.board.reruns import process_agent
from costgym.experiments.board.reruns.process_agent import Limits
from costgym.experiments.board.reruns.sandbox import NONE
from costgym.experiments.board.submissions.submission import pack, validate
from costgym.experiments.board.verify import verify
from costgym.experiments.leaderboard import add, make_run_config, run
from costgym.experiments.pages.table import print_table
from costgym.experiments.play.trajectories.format import shown_crash
from costgym.simulators.errors import InfrastructureError
from tests.helpers.agent_processes import fork_agents

OWN = """
import os, sys
from costgym.agents.classic import GreedyAgent
from costgym.simulators.errors import InfrastructureError

class Flaky(GreedyAgent):
    '''Every other episode of its own seeds fails in another method.'''
    def reset(self, seat, observation, info, seed):
        super().reset(seat, observation, info, seed)
        self.kind, self.steps = seed % 6, 0
        if self.kind == 0:
            raise ValueError(f"<b>no</b> \\x1b[31m {self} at https://keys.example/x")
    def act(self, observation, info):
        self.steps += 1
        if self.kind == 1:
            raise InfrastructureError("again, with the same luck")
        if self.kind == 2:
            return "finish"
        if self.kind == 3:
            sys.exit(3)
        return super().act(observation, info)
    def observe(self, *told):
        if self.kind == 4:
            raise RuntimeError("seen enough")

class Broken:
    name = "broken"
    def begin(self, world, seed):
        raise KeyError("no model")

class Handled(GreedyAgent):
    handles = (Broken(),)

class Dies(GreedyAgent):
    def act(self, observation, info):
        os._exit(1)

class Steady(GreedyAgent):
    pass
"""


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "own.py").write_text(OWN)
    monkeypatch.chdir(folder)
    return folder


def board(*agents: str, **more: Any) -> Any:
    return make_run_config("btp", agents=list(agents), budgets="price=20", **{"episodes": 24, **more})


def test_an_agent_whose_model_breaks_fails_alone(code: Path, tmp_path: Path) -> None:
    rows = run(board("own.py:Handled", "own.py:Steady", episodes=2), tmp_path / "board").document["rows"]
    lines = [json.loads(line) for line in (tmp_path / "board" / "episodes.jsonl").read_text().splitlines()]
    assert [line.get("crash", "") for line in lines] == ["KeyError: 'no model'"] * 2 + [""] * 2
    assert {row["agent"]: row["episodes"] for row in rows} == {"own.py:Handled": 2, "own.py:Steady": 2}


def test_a_crash_fails_its_episode_and_the_run_goes_on(code: Path, tmp_path: Path) -> None:
    ran = run(board("own.py:Flaky", "own.py:Steady"), tmp_path / "board")
    lines = [json.loads(line) for line in (tmp_path / "board" / "episodes.jsonl").read_text().splitlines()]
    flaky, steady = lines[:24], lines[24:]
    assert not any("crash" in line for line in steady)
    crashes = {line["crash"] for line in flaky if "crash" in line}
    assert {"InfrastructureError: again, with the same luck", "SystemExit: 3", "RuntimeError: seen enough"} < crashes
    assert any("<b>no</b>" in crash and "keys.example" not in crash and "0x" not in crash for crash in crashes)
    assert all(crash.isprintable() for crash in crashes)
    # an episode without a crash is, byte for byte, that of the same agent without the bug
    for mine, theirs in zip(flaky, steady, strict=True):
        if "crash" not in mine:
            assert {**mine, "agent": ""} == {**theirs, "agent": ""}
        elif mine["crash"] != "RuntimeError: seen enough":
            assert not mine["strict"] and not mine["void"]
    rows = {row["agent"]: row for row in ran.document["rows"]}
    crashed = sum("crash" in line for line in flaky)
    assert crashed > 8 and rows["own.py:Flaky"]["crashed_episodes"] == crashed
    assert rows["own.py:Flaky"]["episodes"] == 24 and rows["own.py:Flaky"]["void_episodes"] == 0
    assert "crashed_episodes" not in rows["own.py:Steady"]
    page = ran.page.read_text()
    assert f"{crashed} episodes count as failures because the agent" in page and "<b>no</b>" not in page and "Crashed" in page
    screen = Console(file=io.StringIO(), width=200)
    print_table(ran.document, screen)
    assert f"{crashed} episodes count as failures" in screen.file.getvalue()
    assert verify(tmp_path / "board").verified
    # a submission with crashes is accepted, and the column stays
    packed = pack(tmp_path / "board", tmp_path / "packed", "A", "a@example.org")
    added = {row["agent"]: row for row in add(tmp_path / "board", packed)}
    assert added["own.py:Flaky (A)"]["crashed_episodes"] == crashed
    # what a record says of a crash cannot be edited unseen
    file = tmp_path / "board" / "trajectories" / "numbers" / "own.py%3AFlaky.price=20.jsonl"
    file.write_text(file.read_text().replace("seen enough", "seen nothing"))
    assert not verify(tmp_path / "board").verified


def test_a_board_without_a_crash_has_no_column_for_it(code: Path, tmp_path: Path) -> None:
    ran = run(board("own.py:Steady", episodes=4), tmp_path / "board")
    assert "Crashed" not in ran.page.read_text()
    assert '"crash' not in (tmp_path / "board" / "leaderboard.json").read_text()
    assert "crash" not in next((tmp_path / "board" / "trajectories").rglob("*.jsonl")).read_text()


def test_a_row_of_own_code_is_played_on_after_crashes_and_lost_processes_are_started_again(
    code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork_agents(monkeypatch)
    config = board("own.py:Flaky", "own.py:Steady", seed=2)
    (code / "own.py").write_text(OWN.replace("class Steady(GreedyAgent):\n    pass", "Steady = Dies"))
    first, second = config.rows()
    flaky = [output.result for output in own_code(config, first, code, NONE, Limits())]
    assert len(flaky) == 24 and 0 < sum(bool(result.crash) for result in flaky) < 24
    monkeypatch.setattr(process_agent, "STARTS", 3)
    dead = [output.result for output in own_code(config, second, code, NONE, Limits())]
    assert len(dead) == 24 and all(result.crash and not result.strict for result in dead)
    assert sum(result.crash == "its process was lost 3 times and is not started again" for result in dead) == 21


class Ours(Agent):
    name = "ours"

    def __init__(self, error: Exception) -> None:
        self.error = error

    def reset(self, seat: Any, observation: Any, info: dict[str, Any], seed: int) -> None:
        self.finish = seat.finish_action

    def act(self, observation: Any, info: dict[str, Any]) -> Any:
        raise self.error


def test_rollout_raises_unless_asked_to_count() -> None:
    env = costgym.make("costgym/Marketplace-v0", scenario="marketplace", disable_env_checker=True)
    with pytest.raises(ZeroDivisionError, match="mine"):
        costgym.rollout(env, Ours(ZeroDivisionError("mine")), episodes=2)
    results = costgym.rollout(env, Ours(ZeroDivisionError("mine")), episodes=2, crashes="count")
    assert [(r.crash, r.strict, r.void) for r in results] == [("ZeroDivisionError: mine", False, False)] * 2
    # a back-end of one of our own agents that is down is no crash: the episode is void
    results = costgym.rollout(env, Ours(InfrastructureError("server down")), episodes=1, crashes="count")
    assert [(r.crash, r.void, r.void_reason) for r in results] == [("", True, "server down")]
    assert make_agent("greedy").replies == {}


def test_a_message_says_nothing_that_changes_from_run_to_run() -> None:
    assert shown_crash("<a.B object at 0x7f12ab34cd56> \x1b[1m\ud800") == "<a.B object > \ufffd[1m\ufffd"
    assert len(shown_crash("x" * 10_000)) == 300


def test_an_honest_run_with_void_episodes_verifies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from costgym.agents.classic import GreedyAgent

    act, seen = GreedyAgent.act, list[int]()

    def down(self: Any, observation: Any, info: dict[str, Any]) -> Any:
        seen.append(1)
        if 6 <= len(seen) <= 8:  # the three tries of one episode
            raise InfrastructureError("server down")
        return act(self, observation, info)

    monkeypatch.setattr(GreedyAgent, "act", down)
    folder = tmp_path / "board"
    ran = run(board("greedy", "cheapest", episodes=6), folder)
    monkeypatch.undo()
    row = next(row for row in ran.document["rows"] if row["agent"] == "greedy")
    assert row["void_episodes"] == 1 and row["void_reasons"] == {"server down": 1}
    verdict = verify(folder)
    assert verdict.verified and verdict.episodes == 12
    lines = (folder / "episodes.jsonl").read_text().splitlines()
    void = next(line for line in lines if '"void":true' in line)
    for old, new in ((f'"task":"{json.loads(void)["task"]}"', '"task":"other"'), ('"void":true', '"void":false')):
        (folder / "episodes.jsonl").write_text(
            "\n".join(line.replace(old, new) if line == void else line for line in lines) + "\n"
        )
        assert not verify(folder).verified
    (folder / "episodes.jsonl").write_text("\n".join(lines) + "\n")
    # handed in, it verifies as well; but whoever hands in says that it is void, so it counts as a failure there
    packed = pack(folder, tmp_path / "packed", "A", "a@example.org", ["greedy"])
    assert validate(packed).verified and verify(packed).verified
    assert json.loads((packed / "manifest.json").read_text())["files"][0]["void"] == {"1": "server down"}
    base = run(board("cheapest", episodes=6), tmp_path / "base").folder
    [added] = add(base, packed)
    assert (added["void_episodes"], added["missing_episodes"], added["episodes"]) == (1, 1, 6)
    assert added["pass_rate"] == pytest.approx(row["pass_rate"] * 5 / 6)
    assert verify(base).verified and 'data-sort="void_episodes"' in (base / "index.html").read_text()
    # an episode that was played cannot be declared void afterwards: its record says otherwise
    good = next(line for line in lines if '"greedy"' in line and '"void":false' in line)
    (folder / "episodes.jsonl").write_text("\n".join(lines).replace(good, good.replace('"void":false', '"void":true')) + "\n")
    assert not verify(folder).verified


def test_an_episode_that_a_back_end_broke_off_says_that_it_was_played_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from costgym.agents.classic import GreedyAgent

    act, seen = GreedyAgent.act, list[int]()

    def down(self: Any, observation: Any, info: dict[str, Any]) -> Any:
        seen.append(1)
        if len(seen) == 6:
            raise InfrastructureError("server down")
        return act(self, observation, info)

    monkeypatch.setattr(GreedyAgent, "act", down)
    [row] = run(board("greedy", episodes=6), tmp_path / "board").document["rows"]
    monkeypatch.undo()
    assert (row["retried"], row["void_episodes"]) == (1, 0) and verify(tmp_path / "board").verified
