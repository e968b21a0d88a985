"""Typical mistakes, and what their messages say."""

import json
from typing import Any

import pytest

import costgym
from costgym.agents import make_agent
from costgym.agents.classic import RandomAgent
from costgym.simulators.errors import CostGymError
from costgym.simulators.ledger import Budget

NUMERIC, SESSION, CALLS = "costgym/Marketplace-v0", "costgym/MarketplaceSession-v0", "costgym/OpenCATPCalls-v0"
SESSION_CHAT = "costgym/MarketplaceSessionChat-v0"
MISTAKES: list[tuple[str, dict[str, Any], str]] = [
    (NUMERIC, {"budgets": {"price": 20}}, "unknown argument of costgym/Marketplace-v0 'budgets'; nearest: budget"),
    (NUMERIC, {"budget": "20"}, "expected RESOURCE=LIMIT"),
    (NUMERIC, {"budget": {"prize": 20}}, "unknown resource 'prize'; known: price"),
    (NUMERIC, {"budget": [20]}, 'expected limits such as {"price": 20}, "price=20" or 20'),
    (NUMERIC, {"budget": True}, "expected limits such as"),
    (NUMERIC, {"budget": -3}, "budget price"),
    (NUMERIC, {"max_tools": -1}, "max_tools: expected a positive whole number or None, got -1"),
    (NUMERIC, {"max_tools": True}, "max_tools"),
    (NUMERIC, {"max_steps": 0}, "max_steps: expected a positive whole number"),
    (NUMERIC, {"split": "validation"}, "known: test, train, train-large, unseen"),
    (NUMERIC, {"scenario": "marketplce"}, "nearest: marketplace"),
    (NUMERIC, {"mask": "usefull"}, "nearest: useful"),
    (NUMERIC, {"enforcement": "strict"}, "known: record, refuse, terminate"),
    (NUMERIC, {"grading": "lenient"}, "known: judge, strict"),
    (NUMERIC, {"cost": "money"}, "unknown cost resource 'money'"),
    (NUMERIC, {"render_mode": "rgb"}, "nearest: rgb_array"),
    (NUMERIC, {"concurrent": 1}, "concurrent: expected true or false, got 1"),
    (CALLS, {"task": "all"}, "nearest: tasks"),
    (CALLS, {"tasks": "serial"}, "sequential"),
    ("costgym/Marketplace-v1", {}, "nearest: costgym/Marketplace-v0"),
    (SESSION, {"budget": "cheap"}, "budget: expected RESOURCE=LIMIT"),
    (SESSION, {"split": "validation"}, "nearest: valid"),
    (SESSION, {"queries": 0}, "queries: Input should be greater than or equal to 1 (got 0)"),
    (SESSION, {"drift": 2}, "drift"),
    (SESSION, {"memory": "count"}, "nearest: counts; known: counts, raw"),
    (SESSION, {"concurrent": "yes"}, "concurrent: expected true or false, got 'yes'"),
    (SESSION_CHAT, {"concurrent": 1}, "concurrent: expected true or false, got 1"),
    (SESSION_CHAT, {"memory": "raw"}, "unknown argument of costgym/MarketplaceSessionChat-v0 'memory'"),
    (SESSION, {"max_steps": "10"}, "max_steps: expected a positive whole number or None, got '10'"),
]
AGENTS: list[tuple[Any, str]] = [
    (lambda observation: 0, "expected an agent, its name or a function (observation, info), got <function <lambda>"),
    (RandomAgent, "expected an agent, its name or a function (observation, info), got <class"),
    (3, "expected an agent, its name or a function (observation, info), got 3"),
    ("gredy", "unknown agent of costgym/Marketplace-v0 'gredy'; nearest: greedy"),
    ("react", "unknown agent of costgym/Marketplace-v0 'react'"),
    (lambda observation, info: "finish", "action: expected a whole number from 0 to 16, got 'finish'"),
    (lambda observation, info: 99, "action: expected a whole number from 0 to 16, got 99"),
]


WORDS: list[tuple[Any, str, str]] = [
    ({"name": "wait"}, "forbidden", "no call is in flight"),
    ({"name": "cancel"}, "invalid_arguments", "tool: expected the name of a tool, got 'None'"),
    ({"name": "cancel", "arguments": {"tool": 3}}, "invalid_arguments", "tool: expected the name of a tool, got '3'"),
    ({"name": "cancel", "arguments": {"tool": "tool_03"}}, "forbidden", "no call of this tool is in flight"),
    ({"name": "cancel", "arguments": ["tool_03"]}, "malformed", "arguments: expected a JSON object"),
    ({"name": "recall"}, "forbidden", "nothing is remembered for this query"),
    ({"name": "tool_99"}, "unknown_tool", "there is no function named 'tool_99'"),
    ({"name": "tool_03", "arguments": [1]}, "malformed", "arguments: expected a JSON object"),
    ({"name": "tool_03"}, "forbidden", "the tool does not serve this kind of query"),
    ("wait for it", "malformed", "expected a JSON object with name and arguments, got 'wait for it'"),
]
"""Mistakes in the words of a session whose calls run side by side."""


@pytest.mark.parametrize(("action", "status", "message"), WORDS)
def test_a_mistake_in_words_is_named_and_costs_a_moment(action: Any, status: str, message: str) -> None:
    env = costgym.make(SESSION_CHAT, concurrent=True, split="test")
    env.reset(seed=3)
    served = [slot.name for slot in env.unwrapped.account().candidates]  # type: ignore[attr-defined]
    assert "tool_03" in served
    outcome, _, _, _, info = env.step(action if isinstance(action, str) else json.dumps(action))
    assert message in outcome and (info["statuses"], info["cost_seconds"], info["cost_price"]) == (status, 0.05, 0.0)


@pytest.mark.parametrize(("env_id", "settings", "message"), MISTAKES)
def test_a_mistake_is_named_with_what_was_expected(env_id: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(CostGymError) as raised:
        costgym.make(env_id, **settings)
    assert message in str(raised.value)
    # what was expected or is known, and what came
    assert any(word in str(raised.value) for word in ("expected", "known", "nearest", "should be"))
    came = [*settings, *map(str, settings.values()), env_id]
    assert any(message in str(raised.value) for message in came)


@pytest.mark.parametrize(("agent", "message"), AGENTS)
def test_what_is_no_agent_is_named_with_what_was_expected(agent: Any, message: str) -> None:
    with pytest.raises(CostGymError) as raised:
        costgym.rollout(costgym.make(NUMERIC), agent, episodes=1)
    assert message in str(raised.value)


def test_a_name_of_an_environment_and_no_episodes_are_refused() -> None:
    with pytest.raises(CostGymError, match=r"env: expected an environment of costgym.make, got 'costgym/Marketplace-v0'"):
        costgym.rollout(NUMERIC, "greedy", episodes=1)  # type: ignore[arg-type]
    with pytest.raises(CostGymError, match="episodes: expected a positive whole number, got 0"):
        costgym.rollout(costgym.make(NUMERIC), "greedy", episodes=0)


@pytest.mark.parametrize("limits", [20, 20.0, "price=20", {"price": 20}])
@pytest.mark.parametrize("env_id", costgym.ENV_IDS)
def test_a_budget_has_three_forms(env_id: str, limits: Any) -> None:
    assert costgym.make(env_id, budget=limits).unwrapped.budget == Budget(price=20.0)  # type: ignore[attr-defined]


def test_a_rollout_takes_an_agent_its_name_or_a_function() -> None:
    env = costgym.make(NUMERIC, split="test")
    results = costgym.rollout(env, "greedy", episodes=3)
    assert results == costgym.rollout(env, make_agent("greedy"), episodes=3)
    finish = env.unwrapped.finish_action  # type: ignore[attr-defined]
    nothing = costgym.rollout(env, lambda observation, info: finish, episodes=3)
    assert [result.calls for result in nothing] == [0, 0, 0]


def test_an_agent_of_another_environment_says_so() -> None:
    env = costgym.make(NUMERIC)
    with pytest.raises(CostGymError, match="react plays in costgym/MarketplaceChat-v0, not in costgym/Marketplace-v0"):
        costgym.rollout(env, make_agent("react"), episodes=1)
