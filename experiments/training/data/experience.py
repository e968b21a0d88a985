"""Play episodes without a budget and keep what they show: past uses of tools for BTP, labelled results for its classifier."""

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
    """Play a split in the text view, its tasks in turns, and give the environment after each episode.

    Args:
        scenario: the world.
        split: of the tasks.
        episodes: how many; each round through the tasks has another seed.
        seed: keys, with `key`, the world's chance and the agent's.
        key: what the episodes are for, so that they differ from those that are evaluated under the same seed.
        agent: by default ReAct on the simulated model.
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
    """Let an agent play a split without a budget and remember what it used.

    Args:
        scenario: the world.
        agent: a language-model agent; by default ReAct on the simulated model. A tree search uses more tools, but most of its
            uses come from searches that fail, which lowers the value of good tools.
        episodes: how many.
        seed: keys the world's chance and the agent's.
        usefulness: judges results; by default by rules.
        split: must not be the one that is evaluated.
    """
    judge, experience = usefulness or RuleBased(), Experience()
    for env in play_split(scenario, split, episodes, seed, ("experience",), agent):
        experience.add(remember(env, judge))
    return experience


def remember(env: Any, usefulness: Usefulness, test: bool = False) -> PastQuery:
    """Collect what an episode that has ended used, judged by the results' texts."""
    uses: dict[str, list[bool]] = {}
    query, episode = env.query, env.episode
    for call in episode.calls:
        if call.slot >= 0 and call.status.executed:
            helped = usefulness.helpful(query, call.tool, call.arguments or {}, episode.content(call))
            uses.setdefault(call.tool, []).append(helped)
    return PastQuery(query, {name: tuple(flags) for name, flags in uses.items()}, test)
