"""One play is billed under any price list, with and without the cache of prompts."""

import json
from pathlib import Path
from typing import Any

import pytest

import costgym
from costgym.agents.models.prices import load_prices
from costgym.agents.registry import make_agent
from costgym.cli.play.cost_tables import ERROR_OF_MEAN
from costgym.experiments.play.costs.bills import Bills, PlayedEpisode, play_billed
from costgym.experiments.play.costs.forecast import forecast
from costgym.simulators.errors import ConfigError, UnknownName
from costgym.simulators.pricing.prompt_cache import CacheRules, ModelPrices, in_currency
from costgym.simulators.scenario import TokenPrices, load_scenario
from tests.helpers.command_line import invoke

CHAT = "costgym/MarketplaceChat-v1"
PRICES = ModelPrices(input=2, output=10, cached=0.2, cache=CacheRules())


def played(agent: str, episodes: int = 8) -> list[PlayedEpisode]:
    tokens = TokenPrices.of(in_currency(PRICES, 100.0))
    scenario = load_scenario("marketplace").in_world(1).model_copy(update={"tokens": tokens})
    env = costgym.make(CHAT, scenario=scenario, budget={"price": 30}, split="test")
    return list(play_billed(env, make_agent(agent, CHAT, model="simulated"), CHAT, episodes, seed=0))


@pytest.fixture(scope="module")
def react() -> list[PlayedEpisode]:
    return played("react")


def test_a_bill_with_the_cache_is_what_the_world_charged(react: list[PlayedEpisode]) -> None:
    bills = Bills(react, PRICES, 100.0, "prefix")
    assert bills.usd == pytest.approx([episode.result.price / 100 for episode in react])
    assert [sum(usage.input_tokens + usage.output_tokens for usage in usages) for usages in bills.usages] == [
        episode.result.tokens for episode in react
    ]


def test_a_growing_conversation_is_read_from_the_cache_and_a_changed_list_of_functions_is_not(
    react: list[PlayedEpisode],
) -> None:
    shares = [
        Bills(episodes, PRICES, 100.0, "prefix").summary(1)["cached_share"] for episodes in (react, played("react+ecoact"))
    ]
    assert shares[0] > 0.5 > 0.4 > shares[1]
    plain, cached = (Bills(react, PRICES, 100.0, use) for use in ("none", "prefix"))
    change = cached.change(plain)
    assert change["usd_tokens"] < change["usd_per_task"] < 0
    assert change["usd_tokens_ci95"][0] <= change["usd_tokens"] <= change["usd_tokens_ci95"][1]


def test_the_whole_bill_is_tokens_and_tools(react: list[PlayedEpisode]) -> None:
    row = Bills(react, PRICES, 100.0, "none").summary(tasks_per_month=10_000)
    assert row["usd_per_task"] == pytest.approx(row["usd_tokens"] + row["usd_tools"])
    assert row["usd_per_month"] == pytest.approx(10_000 * row["usd_per_task"])
    assert row["usd_p50"] <= row["usd_p95"] and row["cached_tokens"] == 0


def test_a_cache_that_tasks_share_serves_what_they_begin_with_alike(react: list[PlayedEpisode]) -> None:
    twice = [react[0], react[0]]
    apart, together = (Bills(twice, PRICES, 100.0, "shared", interval_s).usages for interval_s in (1e9, 60.0))
    assert apart == [react[0].usages] * 2
    assert together[1][0].cached_tokens == together[1][0].input_tokens > react[0].usages[0].cached_tokens == 0


def arguments(env_id: str) -> dict[str, Any]:
    return {"scenario": load_scenario("marketplace"), "budget": {"price": 30}, "split": "test"}


def test_what_cannot_be_forecast_is_one_sentence() -> None:
    with pytest.raises(ConfigError, match="nobody's"):
        forecast(["react"], ["nobody's"], arguments, episodes=1)
    with pytest.raises((ConfigError, UnknownName), match="greedy"):
        forecast(["greedy"], ["gpt-5-mini"], arguments, episodes=1)
    with pytest.raises(ConfigError, match="expected simulated"):
        forecast(["react"], ["gpt-5-mini"], arguments, episodes=1, decisions="openai:gpt-5-mini")


def test_a_twin_decides_in_a_forecast(tmp_path: Path) -> None:
    (tmp_path / "twin.yaml").write_text("models: {twin: {model: simulated, forget: 1.0}}")
    rows = forecast(["react"], ["gpt-5-mini"], arguments, episodes=6, decisions=f"{tmp_path / 'twin.yaml'}:twin")
    assert [row["success"] for row in rows] == [0.0, 0.0]


def test_recorded_episodes_are_replanned_with_an_interval_and_a_log_cannot_be(tmp_path: Path) -> None:
    path, page = tmp_path / "react", tmp_path / "cost.html"
    assert invoke("collect", "--agent", "react", "--episodes", "20", "--out", path).exit_code == 0
    words = ("--mode", "replanned", "--models", "gpt-5-mini", "--episodes", "5", "--budget", "price=20")
    result = invoke("cost", path, *words, "--json", tmp_path / "cost.json", "--page", page)
    assert result.exit_code == 0 and "a twin fitted to 20 recorded episodes decides on 5 of their tasks" in result.stdout
    (row,) = json.loads((tmp_path / "cost.json").read_text())["rows"]
    low, high = row["usd_per_task_interval"]
    assert 0 < low < row["usd_per_task"] < high and row["mode"] == "replanned"
    assert f"{row['usd_per_month']:,.0f}" in page.read_text()
    (tmp_path / "log.jsonl").write_text(CALL)
    result = invoke("cost", tmp_path / "log.jsonl", *words)
    assert result.exit_code == 2 and "needs recorded episodes of `react`" in result.stderr and "forge --traces" in result.stderr


def test_the_stated_error_of_forecasts_is_the_measured_one() -> None:
    measured = json.loads(Path("benchmarks/results/forecast.json").read_text())
    assert round(measured["error_of_mean"], 2) == ERROR_OF_MEAN


def test_the_command_forecasts_a_month_offline(tmp_path: Path) -> None:
    words = ["--agents", "react,react+ecoact", "--models", "gpt-5-mini,claude-haiku-4-5", "--episodes", "4"]
    result = invoke("cost", *words, "--budget", "price=30", "--tasks-per-month", "5000", "--json", str(tmp_path / "cost.json"))
    assert result.exit_code == 0 and "A month has 5,000 tasks" in result.stdout
    rows = json.loads((tmp_path / "cost.json").read_text())["rows"]
    assert [(row["agent"], row["model"], row["cache"]) for row in rows[:3]] == [
        ("react", "gpt-5-mini", "none"),
        ("react", "gpt-5-mini", "prefix"),
        ("react", "claude-haiku-4-5", "none"),
    ]
    assert len(rows) == 8 and rows[-1]["change"]["from"] == "react" and "change" not in rows[0]
    contract = {"usd_per_task", "usd_p50", "usd_p95", "usd_per_success", "usd_per_month", "success", "cached_share"}
    assert contract <= set(rows[0])
    assert load_prices("costgym/agents/models/prices/prices_2026_11.yaml").date.isoformat() == rows[0]["prices"]


CALL = '{"trace_id": "t", "model": "m", "prompt_tokens": 100, "completion_tokens": 9}'


@pytest.mark.parametrize(
    ("prices", "log", "words"),
    [
        ("{input: 2, output: 10, above: [{tokens: 9, input: 1, output: 10}]}", CALL, "tokens cost less than shorter ones"),
        ("{input: 2, output: 10, cache: {ttl_s: 60}}", CALL, "a cache needs a price of what is read from it; add `cached`"),
        ("{input: 2, output: 10}", '{"trace_id": "t", "model": "m"}', "none of its 1 records has tokens of a model"),
        ("{input: 2, output: 10}", CALL.replace('"m"', '"mine"'), "unknown model in the price table"),
    ],
)
def test_bad_lines_are_refused_in_one_sentence_and_nothing_is_written(
    tmp_path: Path, prices: str, log: str, words: str
) -> None:
    table, calls, out = (tmp_path / name for name in ("prices.yaml", "calls.jsonl", "cost.json"))
    table.write_text(f"date: 2026-11-27\nmodels:\n  m: {prices}\n")
    calls.write_text(log)
    result = invoke("cost", str(calls), "--prices", str(table), "--json", str(out))
    assert (result.exit_code, result.stdout, out.exists()) == (2, "", False)
    assert words in result.stderr and result.stderr.count("\n") == 1
