"""The model calls of logs are read with their classes of tokens, and priced at any list."""

import json
from pathlib import Path
from typing import Any

import pytest

from costgym.experiments.play.call_logs.model_calls import ModelCall, read_model_calls
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
WHOLE = ModelCall("t", "m", Usage(100, 9, 60, cache_write_tokens=30), 5.0)


@pytest.mark.parametrize("record", [OTEL, OPENINFERENCE, CLAUDE_CODE, LANGFUSE])
def test_dialects_agree_on_the_classes_of_tokens(tmp_path: Path, record: dict[str, Any]) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps(record) + "\n")
    assert read_model_calls(log).calls == [WHOLE]


def test_a_message_that_is_written_in_parts_is_counted_once(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    parts = [{**CLAUDE_CODE, "message": {**CLAUDE_CODE["message"], "usage": {**ANTHROPIC, "output_tokens": n}}} for n in (1, 9)]
    log.write_text("\n".join(map(json.dumps, parts)))
    assert read_model_calls(log).calls == [WHOLE]


def test_the_steps_of_an_atif_trajectory_are_its_calls(tmp_path: Path) -> None:
    metrics = {"prompt_tokens": 100, "completion_tokens": 9, "cached_tokens": 60}
    log = tmp_path / "log.json"
    steps = [{"source": "user"}, {"source": "agent", "timestamp": 5, "metrics": metrics}]
    log.write_text(json.dumps({"schema_version": "ATIF-v1.7", "session_id": "t", "agent": {"model_name": "m"}, "steps": steps}))
    assert read_model_calls(log).calls == [ModelCall("t", "m", Usage(100, 9, 60), 5.0)]


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
