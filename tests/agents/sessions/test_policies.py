"""The references of sessions: what they know, and in which order they stand."""

from functools import cache
from typing import Any

import numpy as np
import pytest

import costgym
from costgym.agents import make_agent
from costgym.agents.base import SESSION
from costgym.agents.registry import agents
from costgym.agents.sessions.policies import indices, shadow_price
from costgym.experiments.play.episodes import play
from costgym.simulators.errors import ConfigError
from costgym.simulators.sessions.beliefs import ToolBeliefs
from costgym.simulators.sessions.informed import value_bound
from costgym.simulators.sessions.rules import SessionRules
from costgym.simulators.sessions.tighter_bound import tighter_bound
from costgym.simulators.status import Status

NAMES = (
    "do-nothing", "random", "greedy", "bayes-index", "bayes-memory", "paced", "thompson", "optimistic", "hedged",
    "tuned", "informed-paced", "informed",
)  # fmt: skip
LEVELS = "costgym/MarketplaceSession-v1"
SMALL = {"queries": 40, "tools": 12, "capabilities": 2, "providers": 3}


def test_all_references_are_listed_and_only_the_informed_ones_are_privileged() -> None:
    entries = {entry.name: entry for entry in agents(SESSION)}
    assert set(NAMES) <= set(entries)
    assert [name for name in NAMES if entries[name].privileged] == ["informed-paced", "informed"]


def shares(name: str, sessions: int, **settings: object) -> np.ndarray:
    env = costgym.make(LEVELS, split="valid", disable_env_checker=True, **settings)
    agent = make_agent(name, LEVELS)
    numbers = env.unwrapped.numbers[:sessions]  # type: ignore[attr-defined]
    return np.array([play(env, agent, number, 0).value_share for number in numbers])  # type: ignore[attr-defined]


def test_the_ladder_of_references() -> None:
    # the whole ladder, whose steps are smaller, is measured by benchmarks/session_ladder.py
    ladder = ("do-nothing", "random", "greedy", "bayes-index", "bayes-memory", "paced", "tuned", "informed-paced", "informed")
    means = {name: shares(name, 8).mean() for name in ladder}
    assert means["do-nothing"] == 0.0 and list(means.values()) == sorted(means.values())
    assert means["paced"] + 0.05 < means["informed-paced"]


@cache
def bounds(number: int, seed: int) -> tuple[float, float]:
    """The tighter and the looser bound of a small session."""
    episode: Any = play(costgym.make(LEVELS, split="valid", **SMALL), make_agent("do-nothing", LEVELS), number, seed)
    limits = episode.session, episode.budget.price, episode.budget.seconds
    return tighter_bound(*limits, [tool.usual for tool in episode.tools]), value_bound(*limits)


@pytest.mark.parametrize("name", ["tuned", "informed-paced", "informed", "thompson"])
def test_no_policy_passes_the_bound_on_average_over_luck(name: str) -> None:
    env = costgym.make(LEVELS, split="valid", disable_env_checker=True, **SMALL)
    agent = make_agent(name, LEVELS)
    for number in (100_000, 100_001, 100_002):
        values = [play(env, agent, number, seed).value for seed in range(6)]  # type: ignore[attr-defined]
        tight, loose = np.array([bounds(number, seed) for seed in range(6)]).T
        assert (tight <= loose).all() and np.mean(values) <= np.mean(tight)


def test_the_same_seed_plays_the_same_session() -> None:
    env = costgym.make(SESSION, disable_env_checker=True, budget={"price": 60.0}, **SMALL)
    agent = make_agent("thompson", SESSION)
    first, second, *others = (play(env, agent, 3, 0, agent_seed).log for agent_seed in (7, 7, *range(8, 14)))
    assert first == second
    assert any(other != first for other in others)


def test_the_hedging_one_calls_tools_side_by_side_and_plays_as_optimistic_where_it_cannot() -> None:
    env, agent = costgym.make(SESSION, split="valid", concurrent=True, disable_env_checker=True), make_agent("hedged", SESSION)
    beside = 0
    for number in range(100_000, 100_004):
        episode = play(env, agent, number, 0)
        calls = [call for call in episode.calls if call.k]
        assert len([call for call in calls if call.finished_s < 0]) == 0
        ends = np.maximum.accumulate([call.finished_s for call in calls])
        beside += int((np.array([call.submitted_s for call in calls])[1:] < ends[:-1]).sum())
    assert beside > 3
    assert np.array_equal(shares("hedged", 4, **SMALL), shares("optimistic", 4, **SMALL))


def test_an_agent_for_sessions_says_so_elsewhere() -> None:
    env = costgym.make("costgym/Marketplace-v0")
    with pytest.raises(ConfigError, match="expected a seat in costgym/MarketplaceSession-v0"):
        play(env, make_agent("paced", SESSION), 0, 0)


# -- beliefs and pacing --------------------------------------------------------------------------------------------------------


def test_beliefs_follow_outcomes_and_fade_with_the_drift() -> None:
    rules = SessionRules(drift=0.1)
    beliefs = ToolBeliefs(rules, np.array([0.8, 0.8]), np.array([1.0, 1.0]))
    start = beliefs.mean.copy()
    for _ in range(4):
        beliefs.learn(0, Status.SERVER_ERROR)
    low = beliefs.mean[0]
    assert low < start[0] and beliefs.mean[1] == start[1]
    assert beliefs.spread[0] < beliefs.spread[1]
    for _ in range(100):
        beliefs.next_query()
    assert low < beliefs.mean[0] < start[0]
    beliefs.forget()
    assert np.array_equal(beliefs.mean, start)


def test_sampled_chances_have_the_mean_of_the_belief() -> None:
    beliefs = ToolBeliefs(SessionRules(), np.array([0.7]), np.array([1.0]))
    drawn = [beliefs.sample(np.array([luck]))[0] for luck in (np.arange(2000) + 0.5) / 2000]
    assert np.mean(drawn) == pytest.approx(beliefs.mean[0], abs=1e-3)


def test_the_shadow_price_is_nothing_while_the_budget_lasts_and_rises_with_the_queries() -> None:
    offers, chances = np.array([0, 0, 1]), np.array([0.5, 0.9, 0.8])
    uses = np.array([0.01, 0.02, 0.01]), np.zeros(3)
    prices = [shadow_price(offers, chances, uses, queries, 2) for queries in (10.0, 100.0, 300.0, 1000.0)]
    assert prices[0] == 0.0 and prices == sorted(prices) and prices[1] < prices[3]
    index, best = indices(offers, chances, uses[0] + uses[1], 2)
    assert best.tolist() == [0, 2] and index.tolist() == pytest.approx([0.02, 0.0125])
    # what is bought at the shadow price does not spend more than there is
    for queries, multiplier in zip((100.0, 300.0, 1000.0), prices[1:], strict=True):
        bought = [(np.arange(2, 21) >= multiplier * ratio).mean() for ratio in index]
        assert sum(share * ratio for share, ratio in zip(bought, index, strict=True)) * queries / 2 <= 1.0
