"""Playing text agents in hand-made worlds."""

from typing import Any

from costgym.agents.base import Agent
from costgym.agents.seat import begin
from costgym.envs.chat import MarketplaceChatEnv
from costgym.simulators.world import World

SMALL = {
    "source": {"kind": "marketplace", "tools": 240, "providers": 60, "categories": 10, "train": 40, "test": 40},
    "failures": "rapidapi-2023",
}
"""A marketplace that is built in no time."""


def chat(world: World | None = None, **settings: Any) -> MarketplaceChatEnv:
    """A text environment over a hand-made world; without a budget unless told."""
    settings.setdefault("budget", {})
    settings.setdefault("enforcement", "record")
    settings.setdefault("max_steps", 400)
    env = MarketplaceChatEnv(scenario=settings.pop("scenario", SMALL), **settings)
    if world is not None:
        env.world, env.numbers = world, world.tasks.numbers(env.split)
    return env


def play(env: Any, agent: Agent, task: int = 0, seed: int = 0) -> tuple[list[str], list[str], dict[str, Any]]:
    """One episode: the actions, the observations (the query first) and the last info."""
    observation, info = env.reset(seed=seed, options={"task": task})
    tell = begin(agent, env, observation, info, seed)
    actions, observations = [], [observation]
    over = False
    while not over:
        action = agent.act(observation, tell(info))
        observation, _, terminated, truncated, info = env.step(action)
        actions.append(action)
        observations.append(observation)
        over = terminated or truncated
    return actions, observations, info


def calls(env: Any) -> list[tuple[str, str]]:
    """(tool, how it ended) of every call asked for, in order."""
    return [(call.tool, call.status.label) for call in env.episode.calls]
