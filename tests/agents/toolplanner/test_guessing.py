"""Tests of the reader's guesses: it knows what the instruction says and nothing of what it dropped."""

from typing import Any

import pytest

from costgym.agents.base import TEXT
from costgym.agents.toolplanner.guessing import understood
from costgym.envs.base import base_env
from costgym.envs.registration import make
from costgym.simulators.tasks import LEVELS
from tests.helpers.shared_data import shared


def view(level: str | None, number: int, scenario: Any = "marketplace") -> Any:
    env = base_env(make(TEXT, scenario=scenario, level=level, budget={}, disable_env_checker=True))
    env.reset(seed=1, options={"task": number})
    return env


@pytest.mark.parametrize("level", [None, "hybrid"])
def test_a_detailed_instruction_is_understood_as_it_is_meant(level: str | None) -> None:
    env = view(level, 3)
    assert understood(env) is env.task


@pytest.mark.parametrize("level", ["statement", "category", "tool", "api"])
def test_a_coarse_instruction_is_understood_without_what_it_dropped(level: str) -> None:
    same = 0
    for number in range(25):
        env = view(level, number)
        task, guessed = env.task, understood(env)
        wanted = {value for need in task.needs for value in map(str, (need.arguments or {}).values())}
        kinds = {need.capability for need in task.needs}
        assert 1 <= len(guessed.needs) <= len(task.needs)
        for need in guessed.needs:
            assert all(env.world.catalog.get(name).capability == need.capability for name in need.tools)
            if level in ("tool", "api"):
                assert need.capability in kinds  # its topic stands in the instruction
            same += bool(wanted) and set(map(str, (need.arguments or {}).values())) <= wanted
        assert understood(env) == guessed
    assert same <= 3  # values that few choices leave may be hit by chance


def test_a_guess_names_the_instructions_categories() -> None:
    for number in range(25):
        env = view("category", number)
        named = {env.world.catalog.get(name).category for name in env.task.named}
        assert {env.world.catalog.get(need.tools[0]).category for need in understood(env).needs} == named


def test_a_guess_can_be_answered() -> None:
    """A call with guessed arguments that name something shows the fact that the reader looks for."""
    answered = total = 0
    for number in range(25):
        env = view("tool", number)
        for need in understood(env).needs:
            text = env.world.answers.answer(env.world.catalog.get(need.tools[0]), need.arguments, env.task)
            answered += text is not None and need.fact in text
            total += 1
    assert 0.5 < answered / total < 1.0


def test_recorded_instructions_are_guessed_at_too() -> None:
    data = shared("data/toolbench_family/mgtoolbench_CC-BY-NC-SA-4.0")
    from costgym.simulators.scenario import load_scenario

    scenario = load_scenario("mgtoolbench", data=str(data))
    for level in LEVELS:
        env = view(level, 0, scenario)
        guessed = understood(env)
        assert guessed.needs
        for need in guessed.needs:
            tool = env.world.catalog.get(need.tools[0])
            if need.arguments is not None:
                assert need.fact in (env.world.answers.answer(tool, need.arguments, env.task) or "")
