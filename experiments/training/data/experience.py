"""Play episodes without a budget and collect past uses of tools, from which BTP learns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ....agents.base import Agent
from ....agents.btp.experience import Experience, PastQuery
from ....agents.btp.usefulness import RuleBased, Usefulness
from ....agents.registry import make_agent
from ....envs.chat import MarketplaceChatEnv
from ....simulators.draws import stable_integer
from ....simulators.scenario import Scenario
from ...rollout import play


def play_split(
    scenario: Scenario, split: str, episodes: int, seed: int, key: tuple[str, ...], agent: Agent | None = None
) -> Iterator[MarketplaceChatEnv]:
    """Play episodes on the tasks of a split in turn, in the text view, and yield the environment after each episode.

    Args:
        scenario: the scenario to play.
        split: split of the tasks.
        episodes: number of episodes; each pass over the tasks uses another seed.
        seed: base seed of the world and of the agent; combined with `key`.
        key: purpose of the episodes, which makes them differ from evaluation episodes with the same seed.
        agent: the agent that plays; by default ReAct on the simulated model.
    """
    player = agent if agent is not None else make_agent("react")
    env = MarketplaceChatEnv(scenario=scenario, split=split, budget={}, enforcement="record", max_steps=400)
    for index in range(episodes):
        turn, place = divmod(index, len(env.numbers))
        play(env, player, env.numbers[place], stable_integer(seed, *key, turn) >> 1)
        yield env


def collect_experience(
    scenario: Scenario,
    agent: Agent | None = None,
    episodes: int = 400,
    seed: int = 0,
    usefulness: Usefulness | None = None,
    split: str = "train",
) -> Experience:
    """Play a split without a budget and collect the tools that the agent used.

    Args:
        scenario: the scenario to play.
        agent: a language-model agent; by default ReAct on the simulated model. A tree search uses more tools, but mostly in
            searches that fail, which lowers the estimated value of good tools.
        episodes: number of episodes.
        seed: seed of the world and of the agent.
        usefulness: judges whether a result helped; by default rule-based.
        split: split of the tasks; it must not be the split that is evaluated.
    """
    judge, experience = usefulness or RuleBased(), Experience()
    for env in play_split(scenario, split, episodes, seed, ("experience",), agent):
        experience.add(remember(env, judge))
    return experience


def remember(env: Any, usefulness: Usefulness, test: bool = False) -> PastQuery:
    """Collect the tools that a finished episode used, with usefulness judged from the text of their results."""
    uses: dict[str, list[bool]] = {}
    query, episode = env.query, env.episode
    for call in episode.calls:
        if call.slot >= 0 and call.status.executed:
            helped = usefulness.helpful(query, call.tool, call.arguments or {}, episode.content(call))
            uses.setdefault(call.tool, []).append(helped)
    return PastQuery(query, {name: tuple(flags) for name, flags in uses.items()}, test)
