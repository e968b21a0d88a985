"""Frozen releases: what they name is what is played, and nothing else passes for it."""

import json
from pathlib import Path

import pytest

from costgym.experiments.board.release import load_release, release_names
from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.board.submissions.submission import pack, validate
from costgym.experiments.board.verify import verify
from costgym.experiments.leaderboard import run
from costgym.simulators.errors import ConfigError, UnknownName
from costgym.simulators.world import World
from tests.helpers.command_line import invoke
from tests.helpers.releases import make_release

NAME = "costgym-2026.11"


@pytest.mark.parametrize(("name", "world"), [(NAME, 0), ("costgym-2026.12", 1)])
def test_the_worlds_of_this_version_are_those_of_the_release(name: str, world: int):
    assert name in release_names()
    assert load_release(name) == make_release(name, world)


def test_a_run_of_some_agents_passes_and_one_on_other_terms_does_not():
    release = load_release(NAME)
    release.check(make_run_config("quick", agents=["greedy"], world=0))
    for other in ({"world": 1}, {"seed": 1}, {"budgets": "price=20"}, {"episodes": 10}, {"suite": "btp"}):
        with pytest.raises(ConfigError, match=r"costgym-2026\.11"):
            release.check(make_run_config(**{"suite": "quick", "agents": ["greedy"], "world": 0, **other}))
    with pytest.raises(UnknownName):
        load_release("costgym-1999.12")


def test_a_run_of_a_release_says_so_and_one_on_other_terms_that_says_so_is_refused(tmp_path: Path):
    arguments = ["leaderboard", "--agents", "cheapest", "--jobs", "1", "--quiet", "--out", str(tmp_path / "board")]
    assert invoke(*arguments, "--release", NAME).exit_code == 0
    documents = [json.loads((tmp_path / "board" / name).read_text()) for name in ("run.json", "leaderboard.json")]
    assert [document["release"] for document in documents] == [NAME, NAME]
    assert f"<dd>{NAME}</dd>" in (tmp_path / "board" / "index.html").read_text()
    packed = pack(tmp_path / "board", tmp_path / "packed", "A", "a@example.org")
    assert validate(packed).verified
    assert json.loads((packed / "manifest.json").read_text())["run"]["release"] == NAME
    assert "release" not in make_run_config(agents=["greedy"]).to_json()
    other = make_run_config(agents=["greedy"], episodes=2, world=0).model_copy(update={"release": NAME})
    problems = verify(run(other, tmp_path / "other").folder).problems
    assert problems[0].startswith("run.json, release: --release: the track numbers is not played on the terms of")


def test_other_rules_are_another_world(monkeypatch):
    config, episode = make_run_config("quick", agents=["greedy"], world=0), World.episode
    monkeypatch.setattr(World, "episode", lambda self, task, seed=0, **more: episode(self, task, seed + 1, **more))
    with pytest.raises(ConfigError, match="the world of the track numbers is"):
        load_release(NAME).check(config)
