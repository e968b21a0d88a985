"""The planner over honest forks, and the example that plays it."""

import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

import costgym
from costgym.agents.base import SESSION_1
from costgym.agents.sessions.planning import Planner, finish
from costgym.experiments.play.episodes import play

SMALL = {"queries": 20, "tools": 8, "capabilities": 2, "providers": 2, "budget": {"price": 60, "seconds": 200}}


def small() -> Any:
    return costgym.make(SESSION_1, split="valid", disable_env_checker=True, **SMALL)


def test_the_planner_plays_a_session_by_one_of_its_rules_and_leaves_the_session_alone() -> None:
    env = small()
    planner = Planner(env.unwrapped, futures=2, every=10)
    first, second = (play(env, planner, 100_001, 0) for _ in range(2))
    assert first.value_share == second.value_share > 0.0  # type: ignore[attr-defined]
    assert second.over and all(entry[0] != "redraw" for entry in second.log)
    assert planner.best in planner.rules


def test_every_rule_is_judged_in_the_same_futures_and_not_in_the_true_one() -> None:
    """Rules that act alike earn alike; and what they earn differs from what they would if the forks knew the future."""
    env = small().unwrapped
    planner = Planner(env, futures=2)
    observation, info = env.reset(seed=0, options={"task": 100_001})
    planner.reset(env.seat(SESSION_1), observation, info, 0)
    rule = planner.rules[0]
    earned = [planner.expect(rule, observation, info) for _ in range(2)]
    true = finish(env.fork(), rule, observation, info)
    assert earned[0] == earned[1] != true


def test_the_example_plays(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    file = Path(__file__).parents[3] / "examples/session_planning.py"
    monkeypatch.setattr(sys, "argv", [str(file), "--episodes", "2", "--futures", "1", "--every", "60"])
    runpy.run_path(str(file), run_name="__main__")
    assert "tuned" in capsys.readouterr().out
