"""Read the calls of language models in a log: the model, its tokens by class, the time, and the trace that they belong to.

Known are spans of OpenTelemetry, OpenInference and Vercel AI, records of LiteLLM, Langfuse and LangSmith, sessions of Claude
Code, ATIF trajectories, TraceLab's rounds, and whatever carries a vendor's own report of usage.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from costgym.agents.models.usage import read_server_usage
from costgym.experiments.play.call_logs.dialects import moment
from costgym.experiments.play.call_logs.records import Record, at, first
from costgym.experiments.play.call_logs.selection import Selection, records_of
from costgym.simulators.calls import Usage
from costgym.simulators.errors import DataError

_MODEL = (
    "attributes.gen_ai.response.model", "attributes.gen_ai.request.model", "attributes.llm.model_name",
    "attributes.ai.model.id",
    "message.model", "model", "extra.metadata.ls_model_name", "response.model", "model_name", "agent.model_name",
)  # fmt: skip
_TRACE = (
    "context.trace_id", "trace_id", "traceId", "sessionId", "session_id", "litellm_trace_id", "request_tags.trace_id", "id",
)  # fmt: skip
_TIME = ("start_time", "startTime", "timestamp", "timing_events.0.timestamp", "created_at", "ts")
_MESSAGE = ("message.id", "round_id")  # a reply that a log writes once for each of its parts


class _Names(NamedTuple):
    """Where a dialect has the tokens; `apart` says that its input tokens leave cached ones out."""

    input: tuple[str, ...]
    output: tuple[str, ...]
    cached: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    apart: bool = False


_DIALECTS = (
    _Names(
        ("attributes.gen_ai.usage.input_tokens", "attributes.gen_ai.usage.prompt_tokens"),
        ("attributes.gen_ai.usage.output_tokens", "attributes.gen_ai.usage.completion_tokens"),
        ("attributes.gen_ai.usage.cache_read.input_tokens", "attributes.gen_ai.usage.cache_read_input_tokens"),
        ("attributes.gen_ai.usage.cache_creation.input_tokens", "attributes.gen_ai.usage.cache_creation_input_tokens"),
    ),
    _Names(
        ("attributes.llm.token_count.prompt",),
        ("attributes.llm.token_count.completion",),
        ("attributes.llm.token_count.prompt_details.cache_read",),
        ("attributes.llm.token_count.prompt_details.cache_write",),
    ),
    _Names(
        ("attributes.ai.usage.promptTokens", "attributes.ai.usage.inputTokens"),
        ("attributes.ai.usage.completionTokens", "attributes.ai.usage.outputTokens"),
        ("attributes.ai.usage.cachedInputTokens",),
    ),
    _Names(
        ("usageDetails.input", "usage_details.input"),
        ("usageDetails.output", "usage_details.output"),
        ("usageDetails.cache_read_input_tokens", "usage_details.cache_read_input_tokens", "usageDetails.input_cached_tokens",
         "usage_details.input_cached_tokens"),
        ("usageDetails.cache_creation_input_tokens", "usage_details.cache_creation_input_tokens"),
        apart=True,
    ),
    _Names(("metrics.prompt_tokens",), ("metrics.completion_tokens",), ("metrics.cached_tokens",)),
    _Names(("input_tokens_total",), ("output_tokens",), ("prefix_tokens",), ("claude_cache_creation_input_tokens",)),
    _Names(("prompt_tokens",), ("completion_tokens",), ("cache_read_input_tokens",), ("cache_creation_input_tokens",)),
)  # fmt: skip
_REPORTS = ("", "message", "response", "outputs", "outputs.llm_output", "body")  # parts of a record that may report usage


class ModelCall(NamedTuple):
    """A request to a model, as a log has it; `at_s` is None where it has no time."""

    trace: str
    model: str
    usage: Usage
    at_s: float | None


class ModelLog(NamedTuple):
    """The model calls of a log in their order, and what was left out (see `Selection.report`)."""

    calls: list[ModelCall]
    records: Mapping[str, Any]


def read_model_calls(path: Path, where: Mapping[str, str] | None = None) -> ModelLog:
    """Read the model calls of a log, which `read_log` takes as well; arguments are as there. Raises DataError, which says what
    was looked for, where it has none."""
    calls: list[ModelCall] = []
    last: dict[str, int] = {}  # index of the call of each message that is written in parts
    selection = Selection(path, where)
    for record in selection.chosen(records_of(path)):
        found = [(value, call) for value, trace in _values(record) if (call := _call(value, trace)) is not None]
        selection.left_out["records without tokens of a model"] += not found
        for value, call in found:
            message = first(value, _MESSAGE)
            if isinstance(message, str):
                if message in last:
                    calls[last[message]] = call  # the last part has the final count
                    continue
                last[message] = len(calls)
            calls.append(call)
    selection.check(len(calls))
    if not calls:
        raise DataError(
            path,
            f"none of its {selection.records} records has tokens of a model; looked for gen_ai.usage.*, llm.token_count.*, "
            "ai.usage.*, usageDetails, usage, prompt_tokens and metrics",
        )
    return ModelLog(calls, selection.report())


def _values(record: Record) -> Iterator[tuple[Mapping[str, Any], str | None]]:
    """A record or its steps, each with the trace that the whole is, where the record is one."""
    value = record.value
    if not isinstance(value, Mapping):
        return
    if isinstance(value.get("steps"), list):
        session, model = str(first(value, _TRACE) or record.location), first(value, _MODEL)
        for step in value["steps"]:
            if isinstance(step, Mapping):
                yield {"model": model, **step}, session
    else:
        yield value, None


def _call(value: Mapping[str, Any], trace: str | None) -> ModelCall | None:
    usage = _usage(value)
    if usage is None:
        return None
    at_s = first(value, _TIME)
    return ModelCall(trace or str(first(value, _TRACE) or ""), str(first(value, _MODEL) or ""), usage, moment(at_s))


def _usage(value: Mapping[str, Any]) -> Usage | None:
    for names in _DIALECTS:
        read, written = _count(first(value, names.input)), _count(first(value, names.output))
        if read is None or written is None or read == written == 0:
            continue
        cached, stored = _count(first(value, names.cached)) or 0, _count(first(value, names.written)) or 0
        total = read + cached + stored if names.apart else read
        cached = min(cached, total)
        return Usage(total, written, cached, cache_write_tokens=min(stored, total - cached))
    for part in _REPORTS:
        report = at(value, part) if part else value
        if isinstance(report, Mapping) and (usage := read_server_usage(report)) is not None:
            return usage
    return None


def _count(value: Any) -> int | None:
    """A number of tokens; attributes of spans and cells of tables may be texts."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 12:
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e11:
        return None
    return int(value)
