"""The sentence that says why an agent failed or what it wasted is true, and names the call."""

import json
import re
from typing import Any

import pytest

from costgym.agents.registry import make_agent
from costgym.envs.base import base_env
from costgym.envs.chat import MarketplaceChatEnv
from costgym.envs.registration import make
from costgym.envs.why import why
from costgym.experiments.play.trajectories.record import record
from costgym.experiments.play.trajectories.replay import replay_steps
from tests.helpers import desks
from tests.helpers.worlds import BROKEN, scenario_of, small_world, tool


def call(name: str, **arguments: str) -> str:
    return json.dumps({"name": name, "arguments": arguments, "usage": {"input_tokens": 1, "output_tokens": 1}})


def text_of(scenario: Any, *actions: str, budget: float | None = 10, **settings: Any) -> str:
    """Play actions in a text environment and return the sentence about them."""
    limits = {} if budget is None else {"price": budget}
    env = MarketplaceChatEnv(scenario=scenario, budget=limits, enforcement="terminate", **settings)
    env.reset(seed=0, options={"task": 0})
    truncated = False
    for action in actions:
        _, _, _, truncated, _ = env.step(action)
    env.give_up()
    return why(env, truncated)


MAP, OLD, DEAD = tool("map", fee=2.0), tool("old_map", fee=5.0), tool("dead_map", fee=3.0, reliability=0.0)
WORLD = scenario_of(small_world(MAP, OLD, DEAD, tool("rain", need=1, fee=1.0), failures=BROKEN))
OPTIMUM = "the optimum passed for 3 credits with map (2) and rain (1)"
GIVE_UP = '{"name": "finish", "arguments": {"answer": "", "give_up": true}}'
DONE = call("finish", answer="fact-0 and fact-1")


@pytest.mark.parametrize(
    ("actions", "sentence"),
    [
        (
            (call("map", city="c0"), call("rain", city="c1"), DONE),
            "Nothing was wasted: its calls cost 3 credits, as those of the optimum do.",
        ),
        (
            (call("old_map", city="c0"), call("rain", city="c1"), DONE),
            "It passed for 6 credits in calls where 3 would do: call 1 of old_map took 5 for “wish 0”, "
            f"which the optimum had for 2 from map; {OPTIMUM}.",
        ),
        (
            (call("map", city="c0"), call("map", city="c0"), call("rain", city="c1"), DONE),
            "It passed for 5 credits in calls where 3 would do: call 2 of map "
            f"asked again for what call 1 had brought and brought nothing for 2; {OPTIMUM}.",
        ),
        (
            (call("map", city="c0"), call("rain", city="c1"), call("finish", answer="fact-1")),
            f"It failed because its answer leaves out 'fact-0', which call 1 had brought; {OPTIMUM}.",
        ),
        (
            (call("map", city="c0"), call("finish", answer="fact-0")),
            f"It failed because no tool was called for “wish 1”, and it ended with 8 of 10 credits left; {OPTIMUM}.",
        ),
        (
            (*[call("dead_map", city="c0")] * 2, call("rain", city="c1"), call("finish", answer="fact-1")),
            "It failed because 2 calls for “wish 0” brought nothing, for 6 credits; the first, call 1 of dead_map, ended in "
            f"server error, and it ended with 3 of 10 credits left; {OPTIMUM}.",
        ),
        (
            (call("dead_map", city="c0"),) * 4,
            "It failed because it passed its limit of 10 credits with call 4: call 1 of dead_map ended in server error and "
            f"brought nothing for 3, as did 3 later calls for 9; {OPTIMUM}.",
        ),
        (
            (call("dead_map", city="c0"),) * 3 + (call("map", city="x"), call("finish", answer="none")),
            "It failed because it passed its limit of 10 credits with call 4: call 1 of dead_map ended in server error and "
            f"brought nothing for 3, as did 3 later calls for 8; {OPTIMUM}.",
        ),
        (
            (call("map", city="c0"), call("rain", city="c1"), GIVE_UP),
            f"It failed because it gave up although its calls had brought all that was asked for; {OPTIMUM}.",
        ),
    ],
)  # fmt: skip
def test_the_sentence_names_the_first_mistake_and_what_the_optimum_did(actions: tuple[str, ...], sentence: str) -> None:
    assert text_of(WORLD, *actions) == sentence


def test_money_that_went_to_failing_calls_is_named_where_the_rest_covers_no_tool() -> None:
    world = scenario_of(small_world(MAP, DEAD, tool("rain", need=1, fee=4.0), failures=BROKEN))
    text = text_of(world, call("dead_map", city="c0"), call("map", city="c0"), call("finish", answer="fact-0"), budget=6)
    assert "no tool was called for “wish 1”, and the 1 credit left cover no tool for it after 3 went to calls" in text
    assert "call 1 first" in text


def test_a_task_that_nobody_can_pass_says_so() -> None:
    assert "; not even the optimum passes here" in text_of(
        WORLD, call("map", city="c0"), call("finish", answer="?"), budget=2.5
    )


def test_a_fact_that_was_guessed_is_named() -> None:
    assert text_of(WORLD, call("map", city="c0"), DONE).startswith("It passed, though no call had brought 'fact-1'")


def test_the_limit_of_steps_and_a_crash_are_named() -> None:
    assert text_of(WORLD, call("map", city="c0"), max_steps=1).startswith("It failed because it did not end within 1 steps;")
    env = MarketplaceChatEnv(scenario=WORLD, budget={})
    env.reset(seed=0, options={"task": 0})
    env.give_up()
    assert why(env, crash="ValueError: no.").startswith("It failed because its own code ended the episode (ValueError: no);")


def test_a_second_booking_names_both_calls() -> None:
    world = desks.scenario(desks.tool("book", 0.0, happens=1.0), desks.tool("reserve"))
    text = text_of(
        world, call("book", flight="SK-4041"), call("reserve", flight="SK-4041"), call("finish", answer="BK-48213"), budget=None
    )
    assert text.startswith("It failed because call 2 of reserve made ")
    assert " a second time, since call 1 had taken effect although it ended in timeout; " in text


CASES = [
    ("react", "costgym/MarketplaceChat-v0", {}),
    ("random", "costgym/Marketplace-v0", {"budget": "price=12;calls=5", "enforcement": "terminate"}),
    ("retry", "costgym/Marketplace-v0", {"scenario": "marketplace-writes"}),
    ("random", "costgym/DecisionAware-v0", {}),
    ("thompson", "costgym/MarketplaceSession-v0", {"queries": 20}),
    ("random", "costgym/OpenCATP-v0", {}),
    ("random", "costgym/OpenCATPCalls-v0", {"budget": "price=0.1"}),
    ("few-shot", "costgym/OpenCATPChat-v0", {"tasks": "all"}),
]


@pytest.mark.parametrize(("agent", "env_id", "settings"), CASES)
def test_every_kind_of_episode_has_a_sentence_that_follows_from_the_record_alone(
    agent: str, env_id: str, settings: dict[str, Any]
) -> None:
    env = make(env_id, disable_env_checker=True, **settings)
    again = make(env_id, disable_env_checker=True, **settings)
    player = make_agent(agent, env_id)
    for index in range(6):
        number, seed, options = base_env(env).instance(index, 3)
        recorded, _ = record(env, player, number, seed, index, options=options)
        text = why(base_env(env), recorded.truncated)
        for _ in replay_steps(again, recorded):
            pass
        base_env(again).give_up()
        assert why(base_env(again), recorded.truncated) == text
        start = {True: ("It passed", "Nothing was wasted"), False: ("It failed",)}[base_env(env).succeeded]
        assert text.startswith(start) and text.endswith(".") and "  " not in text, text
        named = [int(number) for number in re.findall(r"\bcall (\d+)\b", text)]
        assert all(1 <= number <= len(recorded.calls) for number in named), text
