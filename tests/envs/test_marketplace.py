"""Marketplace-v0: its default form, and the form in which calls run side by side."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import costgym
from costgym.agents.sb3 import needed
from costgym.envs.features.templates import NEED_FEATURES, RESOURCE_FEATURES, TOOL_FEATURES
from costgym.envs.marketplace import MarketplaceEnv
from costgym.envs.seats import prices_of
from costgym.simulators.errors import ConfigError, UnknownName

PRICE, NEED_1, ON_OFFER = (TOOL_FEATURES.index(name) for name in ("price", "need_1", "on_offer"))


def walk(env: Any, episodes: int, seed: int = 0) -> Any:
    """Observations and infos of episodes with random actions, some of them outside the mask."""
    generator = np.random.default_rng(seed)
    for number in range(episodes):
        observation, info = env.reset(seed=seed + number)
        over = False
        yield observation, info
        while not over:
            choices = np.flatnonzero(info["action_mask"]) if generator.random() < 0.8 else np.arange(env.action_space.n)
            observation, _, terminated, truncated, info = env.step(int(generator.choice(choices)))
            over = terminated or truncated
            yield observation, info


@pytest.mark.parametrize("scenario", ["marketplace", "storm", "faas"])
def test_a_step_is_a_call_and_the_waits_until_its_end(scenario: str) -> None:
    settings: dict[str, Any] = {"scenario": scenario, "budget": {"price": 20, "seconds": 60}, "enforcement": "refuse"}
    one, many = MarketplaceEnv(**settings, mask="legal"), MarketplaceEnv(**settings, concurrent=True)
    assert (one.wait_action, one.action_space.n) == (None, many.action_space.n - 1)
    assert many.wait_action is not None
    generator = np.random.default_rng(1)
    for seed in range(20):
        _, info = one.reset(seed=seed)
        _, news = many.reset(seed=seed)
        while news["action_mask"][many.wait_action]:
            *_, news = many.step(many.wait_action)
        over = False
        while not over:
            action = int(generator.choice(np.flatnonzero(info["action_mask"])))
            finishes = action == one.finish_action
            _, reward, over, _, info = one.step(action)
            _, total, ended, _, news = many.step(many.finish_action if finishes else one.candidate(action).index)
            while not ended and news["action_mask"][many.wait_action]:
                _, more, ended, _, news = many.step(many.wait_action)
                total += more
            assert (reward, over, info["at_s"], info["is_success"]) == (
                pytest.approx(total, abs=1e-12), ended, news["at_s"], news["is_success"],
            )  # fmt: skip


def test_candidates_stand_by_need_then_by_price_and_those_of_no_use_last() -> None:
    env = MarketplaceEnv()
    for seed in range(20):
        observation, _ = env.reset(seed=seed)
        tools = observation["tools"]
        needs = [int(np.argmax(row)) if row.any() else 6 for row in tools[:, NEED_1 : NEED_1 + 6]]
        assert list(zip(needs, tools[:, PRICE], strict=True)) == sorted(zip(needs, tools[:, PRICE], strict=True))
        for row in range(len(tools)):
            candidate = env.candidate(row)
            assert env.action_of(candidate.index) == row
            assert prices_of(tools, env.world.max_price)[row] == pytest.approx(candidate.quote)


def test_the_useful_calls_are_those_that_can_bring_a_missing_fact() -> None:
    useful, legal = MarketplaceEnv(), MarketplaceEnv(mask="legal")
    narrower = 0
    for observation, info in walk(useful, 40):
        assert not (info["action_mask"][:-1] & ~needed(observation)).any()
    for seed in range(40):
        first, second = (env.reset(seed=seed)[1]["action_mask"] for env in (useful, legal))
        assert not (first & ~second).any() and first.any()
        narrower += int(second.sum() - first.sum())
    assert narrower > 100


@pytest.mark.parametrize("scenario", ["marketplace", "storm", "faas"])
def test_every_value_lies_within_the_space_which_is_bounded(scenario: str) -> None:
    for budget in ({"price": 0.5, "calls": 2, "seconds": 3.0}, {}):
        env = MarketplaceEnv(scenario=scenario, budget=budget, enforcement="record", max_steps=20)
        for space in env.observation_space.spaces.values():  # type: ignore[attr-defined]
            assert space.low.min() >= -1.0 and space.high.max() <= 10.0
        for observation, _ in walk(env, 30):
            assert env.observation_space.contains(observation)


def test_calls_that_the_budget_cannot_pay_are_refused_unless_asked_otherwise() -> None:
    assert MarketplaceEnv().enforcement == "refuse"
    assert MarketplaceEnv(enforcement="record").enforcement == "record"
    assert MarketplaceEnv(concurrent=True).enforcement == "terminate" == MarketplaceEnv().scenario.enforcement


def test_the_spec_tells_the_step_limit() -> None:
    for made, limit in (
        (costgym.make("costgym/Marketplace-v0"), 64),
        (costgym.make("costgym/Marketplace-v0", max_steps=7), 7),
        (gym.make(costgym.make("costgym/Marketplace-v0", max_steps=7).spec), 7),  # type: ignore[arg-type]
    ):
        assert made.spec is not None and made.spec.max_episode_steps == limit
        made.reset(seed=0)
        steps = 1
        while not made.step(made.action_space.n - 2)[3]:  # a row without a candidate
            steps += 1
        assert steps == limit
    timed = gym.wrappers.TimeAwareObservation(costgym.make("costgym/Marketplace-v0"), flatten=False)
    assert "time" in timed.reset(seed=0)[0]


def test_records_without_a_form_are_of_the_first_one() -> None:
    spec = MarketplaceEnv().world_spec()
    old = spec.arguments({"split": "test", "enforcement": "terminate"})
    assert MarketplaceEnv(**old).concurrent
    new = MarketplaceEnv(mask="legal")
    again = MarketplaceEnv(**spec.arguments(new.world_settings()))
    assert (again.concurrent, again.mask, again.enforcement) == (False, "legal", "refuse")


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(UnknownName, match="useful"):
        MarketplaceEnv(mask="usefull")
    with pytest.raises(ConfigError, match="concurrent"):
        MarketplaceEnv(concurrent="yes")  # type: ignore[arg-type]


def test_the_names_of_the_columns_are_as_many_as_the_columns() -> None:
    shapes = {name: space.shape for name, space in MarketplaceEnv().observation_space.spaces.items()}  # type: ignore[attr-defined]
    assert shapes == {
        "tools": (16, len(TOOL_FEATURES)),
        "needs": (6, len(NEED_FEATURES)),
        "resources": (len(RESOURCE_FEATURES),),
    }
