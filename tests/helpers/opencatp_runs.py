"""Recorded episodes of the OpenCATP views, for tests: collections, and a run's folder with the trajectories of both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym

import costgym
from costgym.agents.base import Agent
from costgym.agents.registry import make_agent
from costgym.experiments.leaderboard.board import publish
from costgym.experiments.leaderboard.run_log import EpisodeOutput, Records
from costgym.experiments.metrics import summarise
from costgym.experiments.rollout import play_many
from costgym.experiments.trajectories.collect import collect
from costgym.experiments.trajectories.format import Header
from costgym.simulators.ledger import Budget

PLAN, CALLS = VIEWS = ("costgym/OpenCATP-v0", "costgym/OpenCATPCalls-v0")


def view(env_id: str, **settings: Any) -> gym.Env[Any, Any]:
    return costgym.make(env_id, disable_env_checker=True, **({"tasks": "all"} | settings))


def collection(env_id: str, folder: Path, agent: Agent | None = None, episodes: int = 12, **settings: Any) -> Path:
    """A collection of a view; by default random actions under a budget, some of which is passed."""
    own = {"budget": {"price": 0.4}} if env_id == PLAN else {"budget": {"price": 0.01}, "slots": 2, "cold_starts": True}
    settings = own | settings
    return collect(view(env_id, **settings), agent or make_agent("random", env_id), episodes, folder, seed=5)


def view_of(path: Path) -> str:
    """The environment of a collection's file."""
    name: str = json.loads(path.read_text().splitlines()[0])["env"]
    return name


def recorded_run(folder: Path, episodes: int = 6) -> Path:
    """A run's folder with trajectories of both views."""
    agents = (make_agent("few-shot", PLAN), make_agent("random", CALLS))
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"suite": "own", "agents": [agent.name for agent in agents]}))
    with Records(folder, [agent.name for agent in agents], ({},)) as records:
        for agent in agents:
            env = view(agent.env_id, split="test", slots=1) if agent.env_id == CALLS else view(agent.env_id, split="test")
            header = Header.of(env, agent.env_id)
            for result, trajectory in play_many(env, agent, agent.env_id, range(episodes), 0, Budget()):
                assert trajectory is not None
                records.add(EpisodeOutput(result, header.to_json(), trajectory.sealed_json(header)))
    results = records.finish()
    rows = [summarise([each for each in results if each.agent == agent.name], episodes=episodes) for agent in agents]
    about = {"name": "opencatp", "description": "Plans.", "currency": "USD", "split": "test"}
    document = {"format": "costgym.leaderboard/1", "suite": "own", "seed": 0, "version": "0.1.0", "grading": "strict"}
    publish(folder, {**document, "scenario": about, "rows": rows})
    return folder
