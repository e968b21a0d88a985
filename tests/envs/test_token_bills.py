"""What messages cost in version 1 of the world: tokens by class, the cache of prompts, long results, contexts that overflow."""

import json
from typing import Any

import pytest

import costgym
from costgym.agents.models.prices import shipped_prices
from costgym.agents.registry import make_agent
from costgym.envs.base import base_env
from costgym.experiments.play.episodes import play_many
from costgym.experiments.play.trajectories.format import Header
from costgym.experiments.play.trajectories.record import record
from costgym.experiments.play.trajectories.verify import Checker
from costgym.simulators.pricing.prompt_cache import USUAL
from costgym.simulators.scenario import load_scenario
from costgym.simulators.world.result_sizes import LEAST, MOST

CHAT = "costgym/MarketplaceChat-v1"
CLASSES = ("input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")


@pytest.fixture
def env() -> Any:
    return costgym.make(CHAT, enforcement="record", disable_env_checker=True).unwrapped


def test_the_usual_prices_are_those_of_the_shipped_table() -> None:
    listed = shipped_prices("claude-sonnet-5").models["claude-sonnet-5"]
    assert USUAL.model_dump(include={"input", "output", "cached", "cache_write"}) == listed.model_dump(
        include={"input", "output", "cached", "cache_write"}
    )
    assert USUAL.cache == listed.cache


def test_nonsense_is_billed_like_any_message_and_its_prompt_is_read_from_the_cache(env: Any) -> None:
    env.reset(seed=0)
    first, second = (env.step("The weather is nice.")[4] for _ in range(2))
    assert first["cached_tokens"] == 0 and first["cache_write_tokens"] == first["input_tokens"] > 1024
    assert second["cached_tokens"] == first["input_tokens"] and second["cache_write_tokens"] < 100
    assert first["cost_price"] == pytest.approx((250 * first["input_tokens"] + 1000 * first["output_tokens"]) / 1e6)
    env.episode.advance(301.0)  # the prefix has passed away
    assert env.step("The weather is nice.")[4]["cached_tokens"] == 0


def test_an_agent_that_talks_nonsense_is_stopped_by_its_money() -> None:
    env = costgym.make(CHAT)
    env.reset(seed=0)
    steps = 0
    terminated = truncated = False
    while not (terminated or truncated):
        _, _, terminated, truncated, _ = env.step("The weather is nice.")
        steps += 1
    assert terminated and base_env(env).account().exceeded == "price" and steps < 400


def test_a_request_beyond_the_window_does_and_costs_nothing_and_compact_makes_it_fit() -> None:
    scenario = load_scenario("marketplace-reliable").model_dump(mode="json")
    tokens = {"input": 200, "output": 1000, "cached": 20, "cache": {}, "window": 3000}
    env: Any = costgym.make(CHAT, scenario={**scenario, "tokens": tokens}, enforcement="record").unwrapped
    env.reset(seed=0)
    while "context_length_exceeded" not in (observation := env.step("word " * 200)[0]):
        pass
    assert json.loads(observation)["error"] == "malformed"
    charged = env.episode.ledger.price
    info = env.step("word " * 200)[4]
    assert info["cost_price"] == 0 and info["input_tokens"] == 0 and env.episode.ledger.price == charged
    usage = {"input_tokens": 2500, "output_tokens": 10}
    answer = env.step(json.dumps({"name": "compact", "arguments": {"summary": "Nothing yet."}, "usage": usage}))[0]
    assert json.loads(answer)["context_tokens"] < 3000
    assert env.step("word")[4]["input_tokens"] < 3000


def test_compact_without_a_summary_is_the_agents_error_and_unknown_in_version_0(env: Any) -> None:
    env.reset(seed=0)
    assert "expected `summary`" in env.step('{"name": "compact"}')[0]
    old: Any = costgym.make("costgym/MarketplaceChat-v0").unwrapped
    old.reset(seed=0)
    assert old.step('{"name": "compact", "arguments": {"summary": "s"}}')[4]["statuses"] == "unknown_tool"


def test_results_are_as_long_as_their_tools_say_and_begin_with_the_answer(env: Any) -> None:
    env.reset(seed=0)
    medians = [env.world.answers.median_tokens(tool) for tool in env.world.catalog]
    assert LEAST <= min(medians) < 30 and 10_000 < max(medians) <= MOST
    need = env.task.needs[0]
    served = env.world.catalog.get(need.tools[0])
    text = env.world.answers.answer(served, need.arguments, env.task)
    assert text == env.world.answers.answer(served, need.arguments, env.task) and json.loads(text)
    assert len(text) // 4 <= 3 * env.world.answers.median_tokens(served) + 100


def test_tools_stand_in_a_stable_order_by_choice(env: Any) -> None:
    stable: Any = costgym.make(CHAT, tool_order="stable").unwrapped
    for world in (env, stable):
        world.reset(seed=0, options={"task": 3})
    names = [document["function"]["name"] for document in stable.documentation()]
    assert names == sorted(names) == sorted(document["function"]["name"] for document in env.documentation())
    assert [tool.name for tool in stable.seat(CHAT).tools] == names


def test_records_hold_the_parts_of_prompts_and_replay_and_the_figures_tell_the_classes() -> None:
    env = costgym.make(CHAT)
    agent = make_agent("react", CHAT)
    trajectory, _ = record(env, agent, 5, 1, 0)
    prompts = [json.loads(action)["usage"]["prompt"] for action in trajectory.actions if "usage" in json.loads(action)]
    assert prompts[0]["same"] == 0 and len(prompts[0]["parts"]) > 16
    assert all(prompt["same"] > 16 for prompt in prompts[1:])
    header = Header.of(env, CHAT)
    assert Checker(header).check(trajectory, trajectory.sealed_json(header))[0] == ""
    (result, _), *_ = play_many(env, agent, CHAT, [0], 0, recorded=False)
    ledger = base_env(env).account().ledger
    assert {name: result.figures[name] for name in CLASSES} == ledger.tokens_by_class()
    free = [usage._replace(cached_tokens=0, cache_write_tokens=0) for usage in ledger.usages]
    prices = base_env(env).world.tokens  # type: ignore[union-attr]
    tools = result.price - result.figures["token_cost"]
    assert result.figures["cost_without_cache"] == pytest.approx(tools + sum(map(prices.price, free)))  # type: ignore[union-attr]
