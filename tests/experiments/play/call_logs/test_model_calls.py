"""The model calls of logs are read with their classes of tokens, and priced at any list."""

import json
from pathlib import Path
from typing import Any

import pytest

from costgym.experiments.play.call_logs.model_calls import ModelCall, read_model_calls
from costgym.experiments.play.costs.price_list import PriceList
from costgym.experiments.play.costs.trace_costs import trace_costs
from costgym.simulators.calls import Usage
from costgym.simulators.errors import ConfigError, DataError
from tests.helpers.shared_data import shared

OTEL = {
    "name": "chat m",
    "context": {"trace_id": "t"},
    "start_time": "1970-01-01T00:00:05Z",
    "attributes": {
        "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": "100", "gen_ai.usage.output_tokens": 9,
        "gen_ai.usage.cache_read.input_tokens": 60, "gen_ai.usage.cache_creation.input_tokens": 30,
    },
}  # fmt: skip
OPENINFERENCE = {
    "context": {"trace_id": "t"},
    "start_time": 5,
    "attributes": {
        "llm.model_name": "m", "llm.token_count.prompt": 100, "llm.token_count.completion": 9,
        "llm.token_count.prompt_details.cache_read": 60, "llm.token_count.prompt_details.cache_write": 30,
    },
}  # fmt: skip
ANTHROPIC = {"input_tokens": 10, "output_tokens": 9, "cache_read_input_tokens": 60, "cache_creation_input_tokens": 30}
CLAUDE_CODE = {"type": "assistant", "sessionId": "t", "timestamp": 5, "message": {"id": "1", "model": "m", "usage": ANTHROPIC}}
LANGFUSE = {
    "traceId": "t", "startTime": 5, "model": "m",
    "usageDetails": {"input": 10, "output": 9, "cache_read_input_tokens": 60, "cache_creation_input_tokens": 30},
}  # fmt: skip
CLAUDE_CODE_SESSION, ATIF = (Path(__file__).with_name(name) for name in ("claude_code.jsonl", "atif.json"))
WHOLE = ModelCall("t", "m", Usage(100, 9, 60, cache_write_tokens=30), 5.0)


@pytest.mark.parametrize("record", [OTEL, OPENINFERENCE, CLAUDE_CODE, LANGFUSE])
def test_dialects_agree_on_the_classes_of_tokens(tmp_path: Path, record: dict[str, Any]) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps(record) + "\n")
    assert read_model_calls(log).calls == [WHOLE]


def test_a_session_of_claude_code_is_priced_with_its_subagent_its_hour_long_cache_and_its_search() -> None:
    (row,) = trace_costs([CLAUDE_CODE_SESSION])
    calls = read_model_calls(CLAUDE_CODE_SESSION)
    assert [(call.usage, call.written_1h_tokens, call.searches, call.thread) for call in calls.calls] == [
        (Usage(12_004, 212, cache_write_tokens=12_000), 12_000, 0, ""),  # written in two parts: the last has the count
        (Usage(5_003, 150, cache_write_tokens=5_000), 0, 0, "6e067db7"),
        (Usage(12_806, 340, 12_000, cache_write_tokens=800), 800, 1, ""),
        (Usage(13_202, 90, 12_800, cache_write_tokens=400), 400, 0, ""),
    ]
    assert calls.records["left_out"] == {"records without tokens of a model": 5}  # an error that Claude Code made up is one
    sonnet = 12 * 2 + 24_800 * 0.2 + 13_200 * 4 + 642 * 10
    haiku = 3 * 1 + 5_000 * 1.25 + 150 * 5
    assert row["usd"] == pytest.approx((sonnet + haiku) / 1e6 + 0.01)
    assert (row["tasks"], row["model"]) == (1, "claude-haiku-4-5-20251001, claude-sonnet-5")


def test_a_session_is_rescheduled_conversation_by_conversation() -> None:
    (row,) = trace_costs([CLAUDE_CODE_SESSION], mode="rescheduled")  # for five minutes: the last request comes after six
    sonnet = 12_004 * 2.5 + 12_004 * 0.2 + 802 * 2.5 + 13_202 * 2.5 + 642 * 10
    assert row["usd"] == pytest.approx((sonnet + 5_003 * 1.25 + 150 * 5) / 1e6 + 0.01)
    (row,) = trace_costs([CLAUDE_CODE_SESSION], mode="rescheduled", price_list=PriceList(cache_ttl="1h"))
    sonnet = 12_004 * 4 + 12_004 * 0.2 + 802 * 4 + 12_806 * 0.2 + 396 * 4 + 642 * 10
    assert row["usd"] == pytest.approx((sonnet + 5_003 * 2 + 150 * 5) / 1e6 + 0.01)


@pytest.mark.parametrize(
    ("record", "tier"),
    [
        ({**CLAUDE_CODE, "message": {**CLAUDE_CODE["message"], "usage": {**ANTHROPIC, "service_tier": "batch"}}}, "batch"),
        ({**OTEL, "attributes": {**OTEL["attributes"], "openai.response.service_tier": "flex"}}, "flex"),
        ({**OTEL, "attributes": {**OTEL["attributes"], "openai.response.service_tier": "default"}}, "standard"),
    ],
)
def test_requests_are_billed_in_the_tier_of_the_log_or_in_one_that_is_chosen(
    tmp_path: Path, record: dict[str, Any], tier: str
) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps(record))
    assert read_model_calls(log).calls == [WHOLE._replace(service_tier=tier)]
    dollars = {
        chosen: trace_costs([log], ["gpt-5-mini"], price_list=PriceList(service_tier=chosen))[0]["usd"]
        for chosen in (None, "standard", "batch", "flex", "priority")
    }
    standard = (40 * 0.25 + 60 * 0.025 + 9 * 2) / 1e6
    factors = {"standard": 1.0, "batch": 0.5, "flex": 0.5, "priority": 1.8}
    assert dollars == pytest.approx({None: standard * factors[tier], **{name: standard * factors[name] for name in factors}})


def test_what_cannot_be_billed_as_chosen_is_one_sentence(tmp_path: Path) -> None:
    for chosen, words in (
        ({"service_tier": "flex"}, "claude-sonnet-5 has no price in the service tier 'flex'"),
        ({"service_tier": "cheap"}, "expected one of standard, batch, flex, priority, got 'cheap'"),
        ({"cache_ttl": "2h"}, "expected 5m or 1h, got '2h'"),
    ):
        with pytest.raises(ConfigError, match=words):
            trace_costs([CLAUDE_CODE_SESSION], ["claude-sonnet-5"], "rescheduled", price_list=PriceList(**chosen))
    with pytest.raises(ConfigError, match=r"gpt-5\.1 has no price of prompts that are kept for an hour"):
        trace_costs([CLAUDE_CODE_SESSION], ["gpt-5.1"], "rescheduled", price_list=PriceList(cache_ttl="1h"))
    with pytest.raises(ConfigError, match="were cached as the log says; add --mode rescheduled"):
        trace_costs([CLAUDE_CODE_SESSION], price_list=PriceList(cache_ttl="1h"))
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps({**LANGFUSE, "service_tier": "scale"}))
    with pytest.raises(
        ConfigError, match="no price in the service tier 'scale'; give a table with its factor, or bill as another"
    ):
        trace_costs([log], ["gpt-5.1"])


def test_the_steps_of_an_atif_trajectory_and_its_subagent_are_its_calls() -> None:
    calls = read_model_calls(ATIF)
    assert [(call.model, call.usage, call.thread) for call in calls.calls] == [
        ("gpt-5.1", Usage(4_000, 200), "main"),
        ("gpt-5.1", Usage(4_600, 120, 3_968), "main"),
        ("gpt-5-mini", Usage(900, 40), "main"),  # a step may have a model of its own
        ("gpt-5-mini", Usage(2_500, 100), "policy"),  # its first step is copied from the other trajectory
    ]
    assert calls.records["left_out"] == {"steps of agents without tokens": 1}
    usd = (4_632 * 1.25 + 3_968 * 0.125 + 320 * 10 + 3_400 * 0.25 + 140 * 2) / 1e6
    assert json.loads(ATIF.read_text())["final_metrics"]["total_cost_usd"] == pytest.approx(usd)
    for mode in ("repriced", "rescheduled"):  # the provider's cache did what its rules say
        (row,) = trace_costs([ATIF], mode=mode)
        assert (row["usd"], row["tasks"]) == (pytest.approx(usd), 1)


def test_what_costs_the_table_does_not_know_are_one_sentence(tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text(
        "date: 2026-11-27\nmodels:\n  m: {input: 2, output: 10, cached: 0.2, cache_write: 2.5}\n"
        "  n: {input: 2, output: 10, cached: 0.2, cache_write: 2.5, cache_write_1h: 4}\n"
        "  free: {input: 2, output: 10, cached: 0.2, search_per_query: 0.01}\n"
    )
    for model, words in (("m", r"kept for an hour \(`cache_write_1h`\)"), ("n", r"searches \(`search_per_query`\)")):
        with pytest.raises(ConfigError, match=f"{words}, for which the table has no price of {model};"):
            trace_costs([CLAUDE_CODE_SESSION], [model], price_list=PriceList(prices=prices))
    (row,) = trace_costs(
        [CLAUDE_CODE_SESSION], ["free"], price_list=PriceList(prices=prices)
    )  # writes that are free cost what other tokens do
    # writes that are free cost what other tokens do
    assert row["usd"] == pytest.approx((18_215 * 2 + 24_800 * 0.2 + 792 * 10) / 1e6 + 0.01)


def test_a_rollout_of_codex_has_its_requests_once_each_with_the_model_of_their_turn(tmp_path: Path) -> None:
    tokens = {"input_tokens": 100, "cached_input_tokens": 60, "output_tokens": 9, "reasoning_output_tokens": 4}
    events = [
        ("session_meta", {"id": "t"}), ("turn_context", {"model": "m"}),
        *[("event_msg", {"type": "token_count", "info": {"total_token_usage": tokens, "last_token_usage": tokens}})] * 2,
        ("event_msg", {"type": "token_count", "info": None}),
    ]  # fmt: skip
    log = tmp_path / "rollout.jsonl"
    log.write_text("".join(json.dumps({"timestamp": 5, "type": kind, "payload": payload}) + "\n" for kind, payload in events))
    assert read_model_calls(log).calls == [ModelCall("t", "m", Usage(100, 9, 60, reasoning_tokens=4), 5.0)]


def test_a_log_without_tokens_and_a_model_in_no_table_are_one_sentence(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps({"tool": "search", "status": "ok"}))
    with pytest.raises(DataError, match="none of its 1 records has tokens"):
        read_model_calls(log)
    log.write_text(json.dumps(CLAUDE_CODE))
    with pytest.raises(ConfigError, match="--models"):
        trace_costs([log])
    with pytest.raises(ConfigError, match="repriced or rescheduled"):
        trace_costs([log], ["gpt-5.1"], mode="guessed")
    log.write_text(json.dumps({**CLAUDE_CODE, "timestamp": None}))
    with pytest.raises(ConfigError, match="without a time"):
        trace_costs([log], ["gpt-5.1"], mode="rescheduled")


def test_a_pause_longer_than_the_time_to_live_costs_the_prefix(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    rounds = [(0, 5000), (60, 6000), (420, 7000), (430, 2000)]  # the last prompt is shorter: it begins again
    log.write_text(
        "\n".join(
            json.dumps({"trace_id": "t", "timestamp": at_s, "model": "m", "prompt_tokens": tokens, "completion_tokens": 1})
            for at_s, tokens in rounds
        )
    )
    (row,) = trace_costs([log], ["gpt-5.1"], mode="rescheduled")
    assert (row["cached_tokens"], row["input_tokens"], row["tasks"]) == (4992, 20000, 1)  # whole steps of 128


def test_real_sessions_are_rescheduled_close_to_what_their_provider_cached() -> None:
    path = shared("data/tracelab/round_trace.jsonl")
    calls = read_model_calls(path).calls
    claude = [call for call in calls if call.model == "claude-opus-4-8"]
    reported = sum(call.usage.cached_tokens for call in claude[1:]) / sum(call.usage.input_tokens for call in claude[1:])
    before = [call.usage.input_tokens for call in claude[:-1]]
    predicted = sum(before) / sum(call.usage.input_tokens for call in claude[1:])
    assert len(calls) == 19 and predicted == pytest.approx(reported, abs=0.01)
    (row,) = trace_costs([path])
    assert row["tasks"] == 2 and row["usd"] == pytest.approx(0.669, abs=0.001)


def test_a_log_of_models_is_chosen_from_and_skips_what_cannot_be_read(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    spans = [{**OTEL, "resource": {"service.name": "shop" if n % 2 else "other"}, "n": n} for n in range(20)]
    log.write_text("\n".join([*map(json.dumps, spans), json.dumps({"name": "tool"}), "{cut"]))
    calls = read_model_calls(log, {"service.name": "shop"})
    assert (len(calls.calls), calls.records["unreadable"], calls.records["problems"][0][:8]) == (10, 1, "line 22:")
    assert calls.records["left_out"] == {"records that --where leaves out": 11}
    with pytest.raises(DataError, match=r"--where leaves out all records; they have service\.name=other"):
        read_model_calls(log, {"service.name": "elsewhere"})
    log.write_text("\n".join([json.dumps(OTEL), "{cut", "{cut"]))
    with pytest.raises(DataError, match="2 of 3 records cannot be read"):
        read_model_calls(log)
