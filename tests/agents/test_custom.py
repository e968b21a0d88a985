"""Agents that a user brings along as FILE.py:CLASS."""

import json
from pathlib import Path
from typing import Any

import pytest

import costgym
from costgym.agents import Agent, make_agent
from costgym.simulators.errors import ConfigError, DataError, UnknownName
from tests.helpers.command_line import invoke

CODE = """
from costgym.agents import Agent

class First(Agent):
    name = "first"

    def reset(self, seat, observation, info, seed):
        self.seed = seed

    def act(self, observation, info):
        return int(info["action_mask"].argmax())

class NoAgent:
    pass
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(CODE)
    return path


def test_it_goes_by_the_name_it_was_asked_for(file: Path) -> None:
    assert make_agent(f"{file}:First").name == f"{file}:First"


@pytest.mark.parametrize(
    ("attribute", "kind", "says"),
    [("Frist", UnknownName, "First"), ("NoAgent", ConfigError, "expected"), ("First", None, "")],
)
def test_what_is_no_agent_is_said(file: Path, attribute: str, kind: type[Exception] | None, says: str) -> None:
    if kind is None:
        assert make_agent(f"{file}:{attribute}")
    else:
        with pytest.raises(kind, match=says):
            make_agent(f"{file}:{attribute}")


def test_a_file_that_is_missing_or_fails_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"missing\.py"):
        make_agent(f"{tmp_path}/missing.py:A")
    (tmp_path / "bad.py").write_text("1 / 0")
    with pytest.raises(DataError, match="ZeroDivisionError"):
        make_agent(f"{tmp_path}/bad.py:A")
    with pytest.raises(DataError, match="cannot be imported"):
        make_agent("no_such.module:A")


@pytest.mark.slow
def test_it_is_ranked_by_any_number_of_processes_and_verified(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    boards = []
    for jobs in ("1", "2"):
        options = ["--agents", "mine.py:First,cheapest", "--episodes", "6", "--budgets", "price=10", "--jobs", jobs, "--quiet"]
        ran = invoke("leaderboard", "--out", jobs, *options)
        assert ran.exit_code == 0, ran.output
        boards.append(json.loads(Path(jobs, "leaderboard.json").read_text()))
    assert boards[0] == boards[1]
    assert "mine.py:First" in {row["agent"] for row in boards[0]["rows"]}
    for jobs in ("1", "2"):
        assert invoke("verify", "1", "--jobs", jobs).exit_code == 0


def test_an_agent_without_a_name_of_its_own_goes_by_that_of_its_class() -> None:
    class Unnamed(Agent):
        def reset(self, seat: object, observation: object, info: object, seed: int) -> None: ...

        def act(self, observation: object, info: dict[str, Any]) -> int:
            return int(info["action_mask"].argmax())

    env = costgym.make("costgym/Marketplace-v0")
    assert costgym.rollout(env, Unnamed(), episodes=1, seed=0)[0].agent == "Unnamed"
