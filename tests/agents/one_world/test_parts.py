"""The papers' ideas as parts of one composition in the one world, with the simulated model."""

import json
from typing import Any

import pytest

import costgym
from costgym.agents.base import TEXT
from costgym.agents.deer.gate import Gate, needs_tool
from costgym.agents.models.simulated import SimulatedRates
from costgym.agents.one_world.simulated import SimulatedOneWorld
from costgym.agents.registry import make_agent, read_agent_name
from costgym.simulators.decision.samples import examples
from costgym.simulators.errors import ConfigError
from costgym.simulators.scenario import load_scenario
from tests.helpers.playing import play

CHAT = "costgym/MarketplaceChat-v1"


@pytest.fixture(scope="module")
def env() -> Any:
    return costgym.make(CHAT, scenario="one-world", split="test", budget={}, enforcement="record").unwrapped


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("catp-plan+ecoact", "EcoAct shows none first"),
        ("catp-plan+deer+ecoact+btp", "EcoAct shows none first"),
        ("react+toolplanner", "is a strategy and not a tool access"),
        ("react+catp", "write catp-plan"),
    ],
)
def test_a_combination_without_meaning_says_why(name: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        read_agent_name(name, TEXT)


@pytest.mark.parametrize("name", ["react", "catp-plan", "dfsdt"])
def test_a_model_that_never_errs_solves_what_needs_no_luck(name: str, env: Any) -> None:
    agent = make_agent(name, CHAT, model=SimulatedOneWorld(SimulatedRates.perfect()))
    for kind in ("none", "search", "facts"):
        numbers = [number for number in env.numbers[:60] if env.world.tasks[number].group == kind]
        passed = 0
        for number in numbers:
            play(env, agent, number, seed=1)
            passed += env.succeeded
        assert passed >= (len(numbers) if kind == "none" else 0.6 * len(numbers)), kind


def test_a_plan_is_one_action_of_all_calls_and_its_failures_go_back_to_the_model(env: Any) -> None:
    planned = alone = 0
    for number in env.numbers[:40]:
        actions, _, _ = play(env, make_agent("catp-plan", CHAT), number, seed=4)
        plans = [json.loads(action)["plan"] for action in actions if "plan" in json.loads(action)]
        assert len(plans) <= 1
        planned += bool(plans)
        alone += bool(plans) and not any(
            "name" in json.loads(a) and json.loads(a)["name"] not in ("think", "finish") for a in actions
        )
    assert planned > 25 and 5 < alone < planned


def test_what_it_reads_off_an_image_it_takes_for_the_truth(env: Any) -> None:
    mistakes = wrong = 0
    for number in env.numbers[:150]:
        if env.world.tasks[number].group == "vision":
            play(env, make_agent("react", CHAT), number, seed=2)
            last = env.episode.log[-1]
            mistakes += last[0] == "finish" and not last[2]
            wrong += last[0] == "finish" and not last[2] and not env.succeeded
    assert mistakes > 10 and wrong > 0


def test_the_gate_tells_sums_from_queries_for_tools_and_hides_most_others() -> None:
    world = load_scenario("one-world").build()
    gate = Gate(examples(world, "train", 400))
    unseen = examples(world, "test", 120)
    right = [(gate.leaning(one.query) >= gate.search_at) == needs_tool(one) for one in unseen]
    assert sum(right) > 0.9 * len(right)
    reserve = whole = wanting = 0.0
    for one in filter(needs_tool, unseen):
        fits = {
            tool.name
            for tool, fit in zip(one.candidates, gate.fits(one.query, one.candidates), strict=True)
            if fit >= gate.fits_at
        }
        reserve += len(fits) / len(one.candidates)
        whole += all(fits & set(need.tools) for need in one.task.needs)
        wanting += 1
    assert reserve < 0.7 * wanting and whole > 0.9 * wanting


def test_a_gated_model_is_shown_nothing_where_nothing_is_needed(env: Any) -> None:
    calls = {}
    for name in ("react", "react+deer"):
        agent, calls[name] = make_agent(name, CHAT), 0
        for number in env.numbers[:100]:
            if env.world.tasks[number].group == "none":
                from costgym.experiments.play.episodes import play as play_with_seat

                play_with_seat(env, agent, number, 3)
                calls[name] += env.episode.ledger.calls
    assert calls["react+deer"] < 0.5 * calls["react"]
