"""Worlds without end: large splits, other catalogues, several scenarios in one environment."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import costgym
from costgym.agents import make_agent
from costgym.envs.base import base_env
from costgym.envs.marketplace import MarketplaceEnv
from costgym.simulators.errors import ConfigError, DataError, UnknownName
from costgym.simulators.scenario import load_scenario, parse_scenario


def small(name: str, **settings: Any) -> dict[str, Any]:
    source = {"kind": "marketplace", "tools": 40, "providers": 8, "categories": 3, "train": 6, "test": 3, "candidates": [3, 7]}
    return {"name": name, "source": source, **settings}


def test_train_large_has_the_tasks_of_train_and_more_that_are_made_when_they_are_drawn() -> None:
    train, large = MarketplaceEnv(), MarketplaceEnv(split="train-large")
    assert len(large.numbers) == 20_000 and list(large.numbers[:400]) == list(train.numbers)
    ids = {large.world.tasks[number].id for number in large.numbers[399:402]}
    assert ids == {"train-00399", "train-00400", "train-00401"}
    assert len(train.world.tasks) == 800 and not set(large.numbers[:1000]) & set(train.world.tasks.numbers("test"))
    _, info = large.reset(seed=1, options={"task": 20_399})
    assert large.task.id == "train-19999" and info["action_mask"].any()
    with pytest.raises(ConfigError, match="task number"):
        large.reset(options={"task": 20_400})
    written = {large.reset(seed=seed) and large.task.id for seed in range(100)}
    assert len(written) > 90


def test_unseen_tools_are_in_no_other_split() -> None:
    seen, unseen = MarketplaceEnv(), MarketplaceEnv(split="unseen")
    names = [{tool.name for tool in env.world.catalog} for env in (seen, unseen)]
    assert len(names[0]) == len(names[1]) and not names[0] & names[1]
    unseen.reset(seed=0)
    assert unseen.task.id.startswith("test-")
    again = MarketplaceEnv(**unseen.world_spec().arguments(unseen.world_settings()))
    assert np.array_equal(again.reset(seed=0)[0]["tools"], unseen.reset(seed=0)[0]["tools"])


@pytest.mark.parametrize(("needs", "counts"), [(1, {1}), ([4, 5], {4, 5}), (6, {6})])
def test_the_number_of_needs_can_be_chosen(needs: Any, counts: set[int]) -> None:
    world = parse_scenario({"name": "x", "extends": "marketplace", "source": {"needs": needs}}).build()
    assert {len(world.tasks[number].needs) for number in range(60)} == counts


def test_so_can_the_share_of_chains() -> None:
    for share in (0.0, 1.0):
        world = parse_scenario({"name": "x", "extends": "marketplace", "source": {"needs": 3, "chain_share": share}}).build()
        assert np.mean([any(need.after for need in world.tasks[number].needs) for number in range(60)]) == share
    with pytest.raises(ConfigError, match="needs"):
        parse_scenario({"name": "x", "source": {"kind": "marketplace", "needs": 7}}).build()


def test_what_a_scenario_does_not_say_is_taken_from_the_one_that_it_extends(tmp_path: Path) -> None:
    storm = load_scenario("storm")
    (tmp_path / "base.yaml").write_text("extends: storm\nbudget: {price: 7}\nsource: {kind: marketplace, needs: 2}\n")
    (tmp_path / "mine.yaml").write_text("extends: base.yaml\nalpha: 0.3\nsource: {candidates: 8}\n")
    mine = load_scenario(tmp_path / "mine.yaml")
    assert (mine.name, mine.alpha, mine.budget, mine.events) == ("mine", 0.3, {"price": 7.0}, storm.events)
    assert mine.source == storm.source.model_copy(update={"needs": 2, "candidates": 8})
    assert parse_scenario({"name": "storm", "extends": "storm"}).digest == storm.digest
    with pytest.raises(UnknownName, match="storms"):
        parse_scenario({"name": "x", "extends": "storms"})
    (tmp_path / "loop.yaml").write_text("extends: loop.yaml\n")
    with pytest.raises(DataError, match="itself"):
        load_scenario(tmp_path / "loop.yaml")


def test_each_episode_draws_its_scenario_from_its_seed() -> None:
    several = [small("calm"), small("dear", max_price=50.0, budget={"price": 9}), "storm"]
    env = MarketplaceEnv(scenario=several)
    met: Counter[str] = Counter()
    for seed in range(60):
        observation, info = env.reset(seed=seed)
        met[env.scenario.name] += 1
        alone = MarketplaceEnv(scenario=env.scenario, max_tools=env.max_tools)
        expected, news = alone.reset(seed=seed)
        assert all(np.array_equal(observation[name], expected[name]) for name in expected)
        assert info["budget_remaining_price"] == news["budget_remaining_price"]
        action = int(np.flatnonzero(info["action_mask"])[0])
        assert env.step(action)[1:4] == alone.step(action)[1:4]
        assert env.observation_space.contains(observation)
    assert set(met) == {"calm", "dear", "storm"} and min(met.values()) > 8


def test_weights_and_a_resets_own_scenario() -> None:
    env = costgym.make("costgym/Marketplace-v0", scenario={"any_of": [small("a"), small("b")], "weights": [0, 1]})
    for seed in range(10):
        env.reset(seed=seed)
        assert env.unwrapped.scenario.name == "b"  # type: ignore[attr-defined]
    env.reset(seed=0, options={"scenario": "a"})
    assert env.unwrapped.scenario.name == "a"  # type: ignore[attr-defined]
    env.reset(seed=0, options={"scenario": small("c", budget={"calls": 1})})
    assert env.unwrapped.scenario.name == "c"  # type: ignore[attr-defined]
    assert env.reset(seed=0)[1]["budget_remaining_price"] == 20.0
    assert env.unwrapped.scenario.name == "b"  # type: ignore[attr-defined]


def test_a_rollout_over_several_scenarios_meets_them_all() -> None:
    env = costgym.make("costgym/Marketplace-v0", scenario=[small("a"), small("b")])
    assert len({base_env(env).instance(index, 0).seed for index in range(8)}) == 8
    results = costgym.rollout(env, make_agent("greedy"), episodes=8, seed=0)
    drawn = set()
    for result in results:
        env.reset(seed=result.seed)
        drawn.add(base_env(env).scenario.name)  # type: ignore[attr-defined]
    assert drawn == {"a", "b"}


def test_several_scenarios_go_through_gymnasiums_vectors() -> None:
    several = [small("a"), small("b", seed=1)]
    envs = costgym.make_vec("costgym/Marketplace-v0", 8, scenario=several, vectorization_mode="sync")
    observations, infos = envs.reset(seed=0)
    assert envs.observation_space.contains(observations) and infos["action_mask"].shape[0] == 8
    assert len({env.unwrapped.scenario.name for env in envs.envs}) == 2  # type: ignore[attr-defined]


@pytest.mark.parametrize("value", [[], {"any_of": [small("a")], "weights": [1, 2]}, {"any_of": [small("a")], "weights": [0]}])
def test_scenarios_that_make_no_choice_are_refused(value: Any) -> None:
    with pytest.raises(ConfigError, match="scenario"):
        MarketplaceEnv(scenario=value)


def test_episodes_over_several_scenarios_are_not_recorded_as_one_world() -> None:
    with pytest.raises(ConfigError, match="record each"):
        MarketplaceEnv(scenario=[small("a"), small("b")]).world_spec()
