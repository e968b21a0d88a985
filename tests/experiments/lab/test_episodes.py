"""Whole episodes as `benchmarks/episodes.py` measures them."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def episodes() -> Any:
    found = importlib.util.spec_from_file_location("episodes", Path(__file__).parents[3] / "benchmarks" / "episodes.py")
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_rollouts_are_measured_at_each_length_against_cartpole(episodes: Any) -> None:
    rows = episodes.measure_lengths(0, rounds=1, steps=80)
    assert [(row["form"], row["steps_per_episode"]) for row in rows] == [
        ("default", 5),
        ("default", 16),
        ("unlimited", 5),
        ("unlimited", 16),
    ]
    assert all(row["steps_per_second"] > 0 and row["ratio_to_cartpole"] > 0 for row in rows)


def test_the_recorded_actions_make_episodes_of_that_length(episodes: Any) -> None:
    env = episodes.make(episodes.ENV_ID, mask="legal", budget={})
    actions = episodes._recorded(env, 5, 40, seed=0)
    finish = env.unwrapped.finish_action
    assert [place for place, action in enumerate(actions) if action == finish] == list(range(4, 40, 5))


def test_language_agents_are_measured_in_episodes_per_second(episodes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(episodes, "LANGUAGE_AGENTS", ("react", "dfsdt"))
    rows = episodes.measure_agents(0, episodes=2, rounds=1)
    assert [row["agent"] for row in rows] == ["react", "dfsdt"]
    assert all(row["episodes_per_second"] > 0 for row in rows)


@pytest.mark.native
def test_rollouts_in_compiled_code_are_measured_beside_them(episodes: Any) -> None:
    pytest.importorskip("numba", reason="needs the extra `train`")
    rows = episodes.measure_lengths(0, rounds=1, steps=80, compiled=True)
    assert [row["kind"] for row in rows] == ["scalar", "compiled"] * 4
    assert all(row["steps_per_second"] > 0 and row["ratio_to_cartpole"] > 0 for row in rows)
