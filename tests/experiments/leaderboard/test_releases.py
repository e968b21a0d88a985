"""Frozen releases: what they name is what is played, and nothing else passes for it."""

from __future__ import annotations

import json

import pytest

from costgym.experiments.leaderboard.releases.release import FOLDER, load_release, make_release, release_names
from costgym.experiments.leaderboard.run_config import make_run_config
from costgym.simulators.errors import ConfigError, UnknownName
from costgym.simulators.world import World

NAME = "costgym-2026.11"


def test_the_worlds_of_this_version_are_those_of_the_release():
    assert NAME in release_names()
    found = make_release(NAME)
    assert json.loads((FOLDER / f"{NAME}.json").read_text()) == found.model_dump()


def test_a_run_of_some_agents_passes_and_one_on_other_terms_does_not():
    release = load_release(NAME)
    release.check(make_run_config("quick", agents=["greedy"]))
    for other in ({"seed": 1}, {"budgets": "price=20"}, {"episodes": 10}, {"suite": "btp"}):
        with pytest.raises(ConfigError, match=r"costgym-2026\.11"):
            release.check(make_run_config(**{"suite": "quick", "agents": ["greedy"], **other}))
    with pytest.raises(UnknownName):
        load_release("costgym-2026.12")


def test_other_rules_are_another_world(monkeypatch):
    config, episode = make_run_config("quick", agents=["greedy"]), World.episode
    monkeypatch.setattr(World, "episode", lambda self, task, seed=0, **more: episode(self, task, seed + 1, **more))
    with pytest.raises(ConfigError, match="the world of the track numbers is"):
        load_release(NAME).check(config)
