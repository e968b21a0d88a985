"""Recorded episodes of the OpenCATP views, for tests: collections, and a run's folder with the trajectories of both."""

import json
from pathlib import Path
from typing import Any

import gymnasium as gym

import costgym
from costgym.agents.base import Agent
from costgym.agents.registry import make_agent
from costgym.experiments.board.run_config import make_run_config
from costgym.experiments.play.collect import collect
from tests.helpers.boards import record_run

PLAN, CALLS, CHAT = "costgym/OpenCATP-v0", "costgym/OpenCATPCalls-v0", "costgym/OpenCATPChat-v0"
VIEWS = (PLAN, CALLS)


def view(env_id: str, **settings: Any) -> gym.Env[Any, Any]:
    return costgym.make(env_id, disable_env_checker=True, **({"tasks": "all"} | settings))


def collection(env_id: str, folder: Path, agent: Agent | None = None, episodes: int = 12, **settings: Any) -> Path:
    """A collection of a view; by default random actions under a budget, some of which is passed."""
    machine = {"slots": 2, "cold_starts": True, "enforcement": "terminate"}
    options = {"budget": {"price": 0.4}} if env_id == PLAN else {"budget": {"price": 0.01}, **machine}
    settings = options | settings
    return collect(view(env_id, **settings), agent or make_agent("random", env_id), episodes, folder, seed=5)


def view_of(path: Path) -> str:
    """The environment of a collection's file."""
    name: str = json.loads(path.read_text().splitlines()[0])["env"]
    return name


def recorded_run(folder: Path, episodes: int = 6) -> Path:
    """A run's folder with trajectories of all three views."""
    config = make_run_config("opencatp", agents=["few-shot"], episodes=episodes, world=0, vary={"tasks": ["nonsequential"]})
    config = config.model_copy(update={"settings": {"*": {"samples": "each"}, CALLS: {"slots": 1}}})
    agents = [make_agent("few-shot", PLAN), make_agent("random", CALLS), make_agent("zero-shot", CHAT)]
    return record_run(config, folder, agents)
