"""Tasks with several needs of one capability, and facts that an answer need not state."""

from typing import Any

import numpy as np
import pytest

import costgym
from costgym.agents import make_agent
from costgym.simulators.errors import CostGymError
from costgym.simulators.oracle.optimum import optimum
from costgym.simulators.scenario import parse_scenario


def document(**need: Any) -> dict[str, Any]:
    """A flight between two cities whose airports have to be looked up with the same tools."""
    profile = {"fee": 2, "latency_s": 1, "reliability": 1.0}
    tools = [
        {"name": "airports", "capability": "iata", "parameters": {"city": "string"}, "profile": profile},
        {"name": "fares", "capability": "fare", "parameters": {"origin": "string", "goal": "string"}, "profile": profile},
    ]
    needs = [
        {"capability": "iata", "arguments": {"city": "Oslo"}, "fact": "OSL"},
        {"capability": "iata", "arguments": {"city": "Bergen"}, "fact": "BGO", **need},
        {"capability": "fare", "arguments": {"origin": "{0}", "goal": "{1}"}, "fact": "1957.05"},
    ]
    # no failures at all, so that what follows is about needs alone
    failures = {"slip": 0.0, "kinds": {"server_error": 1.0}}
    tasks = [{"query": "What does a flight from Oslo to Bergen cost?", "needs": needs}]
    return {"name": "desk", "failures": failures, "source": {"kind": "own", "tools": tools, "tasks": tasks}}


def test_calls_of_one_tool_serve_its_needs_in_turn_in_the_numeric_view() -> None:
    env = costgym.make("costgym/Marketplace-v0", scenario=document())
    observation, info = env.reset(seed=0)
    airports = env.unwrapped.action_of(0)
    assert observation["tools"][airports, 5:11].tolist() == [1, 1, 0, 0, 0, 0]
    known = []
    for action in (0, 0, 1):
        observation, _, _, _, info = env.step(env.unwrapped.action_of(action))
        known.append(observation["needs"][:3, 1].tolist())
    assert known == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert info["action_mask"].tolist() == [False, False, True]
    assert env.step(2)[4]["is_success"]


def test_the_text_view_takes_each_call_for_the_need_that_its_arguments_mean() -> None:
    episode = parse_scenario(document()).build().episode(0)
    assert [episode.call(0, {"city": city}).need for city in ("Bergen", "Oslo", "Turku")] == [1, 0, -1]
    episode.call(1, {"origin": "OSL", "goal": "BGO"})
    assert episode.known == [True, True, True]
    assert episode.finish("A flight costs $1,957.05.").strict


def test_intermediate_facts_are_not_asked_for_unless_the_task_says_so() -> None:
    assert [need.asked for need in parse_scenario(document()).build().tasks[0].needs] == [False, False, True]
    episode = parse_scenario(document(asked=True)).build().episode(0)
    assert episode.finish("1957.05").share == 0.5


def test_the_optimum_of_needs_that_share_a_tool_is_found() -> None:
    best = optimum(parse_scenario(document()).build(), 0, 0)
    assert (best.plan, best.price, best.feasible, best.exact) == ((0, 0, 1), 6.0, True, True)


def test_an_optional_fact_costs_the_optimum_nothing() -> None:
    made = document()
    made["source"]["tasks"][0]["needs"] = [
        {"capability": "iata", "arguments": {"city": "Oslo"}, "fact": "OSL"},
        {"capability": "fare", "arguments": {"origin": "x"}, "fact": "12.50", "optional": True},
    ]
    world = parse_scenario(made).build()
    assert optimum(world, 0, 0).plan == (0,)
    assert world.episode(0).finish("OSL, for 12.50").precision == 1.0
    env = costgym.make("costgym/Marketplace-v0", scenario=made)
    observation, info = env.reset(seed=0)
    assert observation["needs"][:2, 0].tolist() == [1, 0] and np.flatnonzero(info["action_mask"]).tolist() == [0, 2]


@pytest.mark.native
def test_the_batch_aims_calls_as_the_world_does() -> None:
    scenario = document()
    vector = costgym.make_vec("costgym/Marketplace-v0", 64, scenario=scenario, split="train", concurrent=True)
    single = [costgym.make("costgym/Marketplace-v0", scenario=scenario, concurrent=True) for _ in range(64)]
    vector.reset(seed=list(range(64)))
    for seed, env in enumerate(single):
        env.reset(seed=seed)
    random = np.random.default_rng(0)
    for _ in range(12):
        actions = random.integers(0, 4, 64)
        _, rewards, *_ = vector.step(actions)
        for i, env in enumerate(single):
            if env.unwrapped.episode.over:
                continue
            _, reward, *_ = env.step(int(actions[i]))
            assert reward == rewards[i]


def journey(**changes: Any) -> dict[str, Any]:
    """A journey by air or, more cheaply, by rail."""
    reliable = {"latency_s": 1, "reliability": 1.0}
    tools = [
        {"name": "flights", "capability": "flight", "parameters": {"goal": "string"}, "profile": {"fee": 5, **reliable}},
        {"name": "trains", "capability": "train", "parameters": {"goal": "string"}, "profile": {"fee": 1, **reliable}},
        {"name": "hotels", "capability": "room", "parameters": {"goal": "string"}, "profile": {"fee": 2, **reliable}},
    ]
    way = {
        "capability": "flight",
        "arguments": {"goal": "Bergen"},
        "fact": "SK251",
        "alternatives": [{"capability": "train", "fact": "R41"}],
    }
    needs = [{**way, **changes}, {"capability": "room", "arguments": {"goal": "Bergen"}, "fact": "1200"}]
    tasks = [{"query": "How do I get to Bergen, and what is a room there?", "needs": needs}]
    return {
        "name": "way",
        "failures": {"slip": 0.0, "kinds": {"server_error": 1.0}},
        "source": {"kind": "own", "tools": tools, "tasks": tasks},
    }


def test_any_of_a_needs_alternatives_serves_it_and_the_optimum_takes_the_cheapest() -> None:
    world = parse_scenario(journey()).build()
    plan = optimum(world, 0, 0)
    assert (plan.plan, plan.price, plan.exact) == ((1, 2), 3.0, True)
    for slot, fact in ((0, "SK251"), (1, "R41")):
        episode = world.episode(0)
        call = episode.call(slot, {"goal": "Bergen"})
        assert call.need == 0 and call.answer is not None and fact in call.answer
        episode.call(2, {"goal": "Bergen"})
        assert episode.finish(f"Take {fact}; a room is 1200.").strict


def test_the_simulated_model_knows_a_need_by_any_of_its_alternatives() -> None:
    env = costgym.make("costgym/MarketplaceChat-v0", scenario=journey())
    results = costgym.rollout(env, make_agent("react"), episodes=20, seed=0)
    assert sum(result.strict for result in results) > 10


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"alternatives": [{"capability": "ship", "fact": "R41"}]}, "unknown capability of source.tasks.0.needs.0"),
        ({"alternatives": [{"capability": "train"}]}, "fact"),
        ({"alternatives": [{"capability": "room", "fact": "9"}]}, "the same arguments must give the same fact"),
    ],
)
def test_a_wrong_alternative_is_named_with_its_place(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CostGymError, match=message):
        parse_scenario(journey(**changes)).build()


def test_the_fact_of_a_need_with_alternatives_is_no_argument() -> None:
    changed = journey()
    changed["source"]["tasks"][0]["needs"][1]["arguments"] = {"goal": "{0}"}
    with pytest.raises(CostGymError, match=r"needs\.0\.alternatives.*neither write nor give an argument"):
        parse_scenario(changed).build()
