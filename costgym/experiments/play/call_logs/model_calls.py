"""Read the calls of language models in a log: the model, its tokens by class, the time, and the trace that they belong to.

Known are spans of OpenTelemetry, OpenInference and Vercel AI, records of LiteLLM, Langfuse and LangSmith, sessions of Claude
Code and Codex, ATIF trajectories, TraceLab's rounds, and whatever carries a vendor's own report of usage.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from costgym.agents.models.usage import read_server_usage
from costgym.experiments.play.call_logs.dialects import moment
from costgym.experiments.play.call_logs.records import Record, at, first
from costgym.experiments.play.call_logs.rollouts import requests
from costgym.experiments.play.call_logs.selection import Selection, records_of
from costgym.simulators.calls import Usage
from costgym.simulators.errors import DataError
from costgym.simulators.pricing.prompt_cache import STANDARD

_MODEL = (
    "attributes.gen_ai.response.model", "attributes.gen_ai.request.model", "attributes.llm.model_name",
    "attributes.ai.model.id",
    "message.model", "model", "extra.metadata.ls_model_name", "response.model", "model_name", "agent.model_name",
)  # fmt: skip
_THREAD = ("agentId", "trajectory_id")
_TRACE = (
    "context.trace_id", "trace_id", "traceId", "sessionId", "session_id", "litellm_trace_id", "request_tags.trace_id", "id",
)  # fmt: skip
_TIME = ("start_time", "startTime", "timestamp", "timing_events.0.timestamp", "created_at", "ts")
_MESSAGE = ("message.id", "round_id")  # a reply that a log writes once for each of its parts
_REPORT = ("message.usage", "usage", "response.usage", "metrics.extra", "outputs.usage", "body.usage")
_KEPT_AN_HOUR = ("cache_creation.ephemeral_1h_input_tokens",)
_SEARCHES = ("server_tool_use.web_search_requests", "prompt_tokens_details.web_search_requests")
_SERVICE_TIER = (
    "service_tier", "response.service_tier", "attributes.openai.response.service_tier",
    "attributes.gen_ai.openai.response.service_tier",
)  # fmt: skip
_STANDARD_TIERS = frozenset({"standard", "default", "auto", "on_demand"})
STEP_WITHOUT_TOKENS = "steps of agents without tokens"
_MOST_SUBAGENTS = 1000


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
    _Names(
        ("metrics.prompt_tokens",),
        ("metrics.completion_tokens",),
        ("metrics.cached_tokens",),
        ("metrics.extra.cache_creation_input_tokens", "metrics.extra.cache_write_tokens"),
    ),
    _Names(("input_tokens_total",), ("output_tokens",), ("prefix_tokens",), ("claude_cache_creation_input_tokens",)),
    _Names(("prompt_tokens",), ("completion_tokens",), ("cache_read_input_tokens",), ("cache_creation_input_tokens",)),
)  # fmt: skip
_REPORTS = ("", "message", "response", "outputs", "outputs.llm_output", "body")  # parts of a record that may report usage


class ModelCall(NamedTuple):
    """A request to a model, as a log has it.

    Attributes:
        trace: the task that it belongs to.
        at_s: its time, seconds since 1970; None where the log has none.
        written_1h_tokens: those of `usage.cache_write_tokens` that are to be kept for an hour.
        searches: the vendor's own searches that it billed.
        service_tier: as the vendor names it, but "standard" for each of the ordinary ones.
        thread: the conversation within the trace whose prompts grow from request to request; a subagent has one of its own.
    """

    trace: str
    model: str
    usage: Usage
    at_s: float | None
    written_1h_tokens: int = 0
    searches: int = 0
    service_tier: str = STANDARD
    thread: str = ""


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
    for record in requests(selection.chosen(records_of(path))):
        values = list(_values(record, selection.left_out))
        read = [(value, call) for value, origin in values if (call := _call(value, origin)) is not None]
        selection.left_out["records without tokens of a model"] += not read
        for value, call in read:
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


class _Origin(NamedTuple):
    """The trajectory that a step belongs to."""

    trace: str
    thread: str


def _values(record: Record, left_out: Counter[str]) -> Iterator[tuple[Mapping[str, Any], _Origin | None]]:
    """A record or, where it is a trajectory, its steps and those of the subagents that it holds, each with its trajectory."""
    if not isinstance(record.value, Mapping):
        return
    if not isinstance(record.value.get("steps"), list):
        yield record.value, None
        return
    trace = str(first(record.value, _TRACE) or record.location)
    waiting = [record.value]
    for trajectory in waiting:
        thread, model = str(first(trajectory, _THREAD) or ""), first(trajectory, ("agent.model_name", *_MODEL))
        for step in _objects(trajectory.get("steps")):
            if step.get("is_copied_context") is True:  # counted where it was made
                continue
            value = {**step, "model": first(step, ("model_name", "model")) or model}
            is_request = step.get("source") == "agent" and step.get("llm_call_count") != 0
            left_out[STEP_WITHOUT_TOKENS] += is_request and _usage(value) is None
            yield value, _Origin(trace, thread)
        if len(waiting) < _MOST_SUBAGENTS:
            waiting += _objects(trajectory.get("subagent_trajectories"))


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _call(value: Mapping[str, Any], origin: _Origin | None) -> ModelCall | None:
    usage = _usage(value)
    if usage is None:
        return None
    at_s, report = first(value, _TIME), first(value, _REPORT)
    trace, thread = origin or (str(first(value, _TRACE) or ""), str(first(value, _THREAD) or ""))
    kept_an_hour = min(_count(first(report, _KEPT_AN_HOUR)) or 0, usage.cache_write_tokens)
    searches = _count(first(report, _SEARCHES)) or 0
    tier = first(report, _SERVICE_TIER[:1]) or first(value, _SERVICE_TIER)
    tier = STANDARD if not isinstance(tier, str) or tier in _STANDARD_TIERS else tier
    return ModelCall(trace, str(first(value, _MODEL) or ""), usage, moment(at_s), kept_an_hour, searches, tier, thread)


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
