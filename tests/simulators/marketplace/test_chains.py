"""Chains of calls: as long as asked for, playable to their end, and without a trace where nothing is asked for."""

from collections.abc import Sequence
from typing import Any

import pytest

import costgym
from costgym.agents import make_agent
from costgym.simulators.errors import ConfigError
from costgym.simulators.marketplace.generator import generate_marketplace
from costgym.simulators.marketplace.tasks import TaskRules
from costgym.simulators.marketplace.vocabulary import vocabulary
from costgym.simulators.scenario import parse_scenario
from costgym.simulators.tasks import Need, Task


def scenario(base: str = "marketplace", **source: Any) -> dict[str, Any]:
    return {"extends": base, "source": {"needs": [4, 6], "chain_share": 1.0, "test": 60, **source}}


def depth(needs: Sequence[Need]) -> int:
    """The most calls of which each needs the one before."""
    depths: list[int] = []
    for need in needs:
        depths.append(1 + max((depths[index] for index in need.after), default=0))
    return max(depths)


def tasks_of(document: dict[str, Any], split: str = "test") -> list[Task]:
    world = parse_scenario({"name": "x", **document}).build()
    return [world.tasks[number] for number in world.tasks.numbers(split)]


@pytest.mark.parametrize(("length", "depths"), [(3, {3}), (4, {4}), ([2, 4], {2, 3, 4})])
def test_a_chain_is_as_long_as_asked_for(length: Any, depths: set[int]) -> None:
    tasks = tasks_of(scenario(chain_length=length))
    assert {depth(task.needs) for task in tasks} == depths
    assert all(4 <= len(task.needs) <= 6 for task in tasks)


def test_a_chain_is_no_longer_than_the_task_has_needs() -> None:
    assert {depth(task.needs) for task in tasks_of(scenario(needs=[2, 3], chain_length=4))} == {2, 3}


def test_the_argument_of_a_link_is_the_answer_before_it() -> None:
    for task in tasks_of(scenario(chain_length=4)):
        for need in task.needs:
            for index in need.after:
                assert task.needs[index].fact in need.arguments.values()
                assert task.needs[index].fact not in task.query and task.needs[index].alternative is None


def test_the_usual_length_changes_nothing() -> None:
    plain, two = (
        generate_marketplace(tasks={"train": 30, "test": 30}, **more) for more in ({}, {"rules": TaskRules(chain_length=2)})
    )
    assert list(plain.tasks) == list(two.tasks) and list(plain.catalog) == list(two.catalog)
    usual = {c.name for category in vocabulary().categories for c in category.capabilities}
    assert {tool.capability for tool in plain.catalog} <= usual
    document = parse_scenario({"name": "x", "extends": "marketplace"}).model_dump(mode="json")
    assert "chain_length" not in document["source"]


@pytest.mark.parametrize("length", [1, 5, [3, 2]])
def test_a_length_out_of_range_is_refused(length: Any) -> None:
    with pytest.raises(ConfigError, match=r"chain_length: expected 2 to 4"):
        parse_scenario({"name": "x", **scenario(chain_length=length)}).build()


def test_long_chains_can_be_played_to_their_end() -> None:
    reliable = scenario("marketplace-reliable", chain_length=4)
    env = costgym.make("costgym/Marketplace-v0", scenario=reliable, split="test", budget={})
    for name in ("oracle", "oracle-informed", "greedy"):
        results = costgym.rollout(env, make_agent(name), episodes=20)
        assert sum(result.strict for result in results) == 20 and min(result.calls for result in results) >= 4


def test_long_chains_stand_a_storm_and_another_catalogue() -> None:
    env = costgym.make("costgym/Marketplace-v0", scenario=scenario("storm", chain_length=[2, 4]), split="unseen")
    best, random = (costgym.rollout(env, make_agent(name), episodes=8) for name in ("oracle", "random"))
    assert sum(result.strict for result in best) > sum(result.strict for result in random)
    assert all(result.regret > -1e-9 for result in [*best, *random])  # nobody beats the optimum
    large = costgym.make("costgym/Marketplace-v0", scenario=scenario(chain_length=3), split="train-large").unwrapped
    large.reset(seed=3)  # type: ignore[attr-defined]
    assert depth(large.task.needs) == 3  # type: ignore[attr-defined]
