"""Which records of other programs are calls of tools, and where each program keeps the parts of a call.

A dialect is a table of paths. One reader serves them all, and records are told apart one by one, so a log may mix dialects.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from costgym.experiments.play.call_logs.expressions import number
from costgym.experiments.play.call_logs.records import at, first

Paths = tuple[str, ...]
Condition = Mapping[str, Paths]  # lower-case values by path; () for any value at all, and all paths must agree
ANY: Paths = ()
_PREFIX = re.compile(
    r"^(execute_tool|tools/call|running tool:?|calling tool:?|tool call:?|tool:|mcp:|ai\.toolcall)\s+", re.IGNORECASE
)
_SUFFIX = re.compile(r"\.tool$")
_MILLISECONDS, _MICROSECONDS, _NANOSECONDS = 1e11, 1e14, 1e17  # least times since 1970 in these units


@dataclass(frozen=True, slots=True)
class Dialect:
    """Where a program keeps the parts of a call.

    Attributes:
        name: Its name in messages.
        kin: Records of this program, calls of tools or not.
        calls: Those that are calls of tools.
        instead: Those that count as calls where a log has no call of a tool.
        failed: Those that failed.
        fields: Paths by field of a call.
    """

    name: str
    kin: tuple[Condition, ...]
    calls: tuple[Condition, ...]
    fields: Mapping[str, Paths]
    failed: tuple[Condition, ...]
    instead: tuple[Condition, ...] = ()
    words: Paths = ()  # what an error says
    code: Paths = ()  # its HTTP status or type


_A = "attributes."
_SPAN_FIELDS: dict[str, Paths] = {
    "started": ("start_time", "startTime"),
    "ended": ("end_time", "endTime"),
    "latency_s": ("latency_s",),
    "episode": (_A + "gen_ai.conversation.id", _A + "session.id", "context.trace_id", "trace_id", "traceId"),
    "span": ("context.span_id", "span_id"),
    "parent": ("parent_id", "parentId"),
    "arguments": (
        _A + "gen_ai.tool.call.arguments", _A + "input.value", _A + "traceloop.entity.input", _A + "ai.toolCall.args",
        _A + "ai.toolCall.input", _A + "ai.toolCall.arguments", _A + "gen_ai.tool.input",
        _A + "gcp.vertex.agent.tool_call_args", _A + "tool_arguments", _A + "mlflow.spanInputs", "meta.input.value",
    ),
    "result": (
        _A + "gen_ai.tool.call.result", _A + "output.value", _A + "traceloop.entity.output", _A + "ai.toolCall.result",
        _A + "ai.toolCall.output", _A + "gen_ai.tool.output",
        _A + "gcp.vertex.agent.tool_response", _A + "tool_response", _A + "mlflow.spanOutputs", "meta.output.value",
    ),
}  # fmt: skip
_SPAN_NAMES: Paths = (
    _A + "gen_ai.tool.name", _A + "tool.name", _A + "mcp.tool.name", _A + "traceloop.entity.name", _A + "ai.toolCall.name",
    "name", "operationName",
)  # fmt: skip
SPANS = Dialect(
    "spans",
    kin=({"context": ANY, "start_time": ANY}, {"attributes": ANY, "start_time": ANY}, {"span_kind": ANY, "start_time": ANY}),
    calls=(
        {_A + "gen_ai.operation.name": ("execute_tool",)},
        {_A + "mcp.method.name": ("tools/call",)},
        {_A + "openinference.span.kind": ("tool",)},
        {_A + "traceloop.span.kind": ("tool",)},
        {_A + "ai.operationId": ("ai.toolcall",)},
        {_A + "langsmith.span.kind": ("tool",)},
        {_A + "mlflow.spanType": ("tool",)},
        {_A + "agentops.span.kind": ("tool",)},
        {_A + "langfuse.observation.type": ("tool",)},
        {"span_kind": ("tool",)},
        {"meta.kind": ("tool",)},
        {"meta.span.kind": ("tool",)},
    ),
    fields={"tool": _SPAN_NAMES, **_SPAN_FIELDS},
    failed=(
        {"status.status_code": ("error", "statuscode.error", "status_code_error")},
        {"status_code": ("error",)},
        {_A + "error.type": ANY},
        {_A + "gen_ai.tool.status": ("error",)},
    ),
    words=("status.description", "status.message", "status_message"),
    code=(_A + "http.response.status_code", _A + "http.status_code", _A + "error.type"),
)
# spans of frameworks that name a tool and no operation
_NAMED = {_A + "gen_ai.tool.name": ANY}
_OTHER_OPERATION = {_A + "gen_ai.operation.name": ANY}
_TIMES: dict[str, Paths] = {"started": ("startTime", "start_time"), "ended": ("endTime", "end_time")}
_INPUTS: dict[str, Paths] = {"arguments": ("input", "inputs"), "result": ("output", "outputs")}
DIALECTS: tuple[Dialect, ...] = (
    SPANS,
    Dialect(
        "langsmith",
        kin=({"run_type": ANY},),
        calls=({"run_type": ("tool",)},),
        fields={
            "tool": ("name",), **_TIMES, **_INPUTS, "price": ("total_cost",), "episode": ("trace_id", "session_id"),
            "span": ("id",), "parent": ("parent_run_id",),
        },
        failed=({"error": ANY}, {"status": ("error",)}),
        words=("error",),
    ),
    Dialect(
        "litellm",
        kin=({"call_type": ANY},),
        calls=({"call_type": ("call_mcp_tool",)}, {"metadata.mcp_tool_call_metadata": ANY}),
        instead=({"call_type": ANY},),
        fields={
            "tool": ("metadata.mcp_tool_call_metadata.name", "mcp_namespaced_tool_name", "model"), **_TIMES,
            "price": ("response_cost", "spend"), "input_tokens": ("prompt_tokens",), "output_tokens": ("completion_tokens",),
            "episode": ("session_id", "trace_id"), "arguments": ("metadata.mcp_tool_call_metadata.arguments",),
            "result": ("metadata.mcp_tool_call_metadata.result",),
        },
        failed=({"status": ("failure",)}, {"error_str": ANY}, {"error_information.error_code": ANY}),
        words=("error_str", "error_information.error_message", "error_information.error_class"),
        code=("error_information.error_code",),
    ),
    Dialect(
        "openai agents",
        kin=({"span_data": ANY, "started_at": ANY},),
        calls=({"span_data.type": ("function", "mcp_tools")},),
        fields={
            "tool": ("span_data.name",), "started": ("started_at",), "ended": ("ended_at",), "episode": ("trace_id",),
            "arguments": ("span_data.input",), "result": ("span_data.output",), "span": ("id",), "parent": ("parent_id",),
        },
        failed=({"error": ANY},),
        words=("error.message",),
    ),
    Dialect(
        "braintrust",
        kin=({"span_attributes": ANY, "metrics.start": ANY},),
        calls=({"span_attributes.type": ("tool",)},),
        fields={
            "tool": ("span_attributes.name",), "started": ("metrics.start",), "ended": ("metrics.end",), **_INPUTS,
            "episode": ("root_span_id",), "span": ("span_id",), "parent": ("span_parents.0",),
        },
        failed=({"error": ANY},),
        words=("error.message", "error"),
    ),
    Dialect(
        "langfuse",
        kin=(
            {"type": ANY, "traceId": ANY, "startTime": ANY}, {"type": ANY, "trace_id": ANY, "start_time": ANY},
            {"type": ANY, "traceId": ANY, "start_time": ANY},
        ),
        calls=({"type": ("tool",)},),
        instead=({"type": ("span",)},),
        fields={
            "tool": ("name",), **_TIMES, **_INPUTS, "episode": ("sessionId", "session_id", "traceId", "trace_id"),
            "price": (
                "totalCost", "total_cost", "calculatedTotalCost", "costDetails.total", "cost_details.total",
                "total_estimated_cost",
            ),
            "input_tokens": ("usageDetails.input", "usage_details.input"),
            "output_tokens": ("usageDetails.output", "usage_details.output"),
            "span": ("id",), "parent": ("parentObservationId", "parent_observation_id", "parent_span_id"),
        },
        failed=({"level": ("error",)}, {"error_info": ANY}),
        words=("statusMessage", "status_message", "error_info.message", "error_info.exception_type"),
    ),
)  # fmt: skip
_FRAMEWORK = re.compile(
    r"^(langgraph|agentexecutor|should_continue|runnable\w*(<.*>)?|channelwrite(<.*>)?|channelread(<.*>)?|__start__|__end__"
    r"|_write|tools_condition|\w*agent|tools|model|call_model|call_tools?|chatprompttemplate|\w*outputparser|branch:.*)$",
    re.IGNORECASE,
)
"""Names of the steps of frameworks, for logs that do not say which spans are tools."""


@dataclass(slots=True)
class Draft:
    """The fields of a call as a record has them, before they are checked."""

    location: str
    fields: dict[str, Any]
    span: Any = None
    parent: Any = None
    instead: bool = False  # it counts where the log has no call of a tool
    lenient: bool = True  # numbers may be written as texts
    about: Mapping[str, Any] = field(default_factory=dict)  # the record itself


def dialect_of(record: Mapping[str, Any]) -> Dialect | None:
    """The dialect that a record is written in."""
    return next((dialect for dialect in DIALECTS if any(_holds(record, mark) for mark in dialect.kin)), None)


def draft_of(dialect: Dialect, record: Mapping[str, Any], location: str) -> Draft | str:
    """The fields of a record that is a call of a tool, or the reason why it is left out."""
    is_call = any(_holds(record, call) for call in dialect.calls)
    if dialect is SPANS and not is_call:
        is_call = _holds(record, _NAMED) and not _holds(record, _OTHER_OPERATION)
    instead = not is_call and any(_holds(record, mark) for mark in dialect.instead)
    if not is_call and not instead:
        return "models, agents and other steps that are no calls of tools"
    return complete(dialect, record, location, instead)


def complete(dialect: Dialect, record: Mapping[str, Any], location: str, instead: bool = False) -> Draft | str:
    """The fields of a call of a dialect."""
    fields = {name: first(record, paths) for name, paths in dialect.fields.items()}
    for name, (event, path) in _IN_EVENTS.items() if dialect is SPANS else ():
        if fields.get(name) is None:
            fields[name] = _of_event(record, event, path)
    for name, inner in _ENVELOPES.items():
        if isinstance(at(fields.get(name), "kwargs"), dict) and (value := first(fields[name], inner)) is not None:
            fields[name] = value
    start, end = moment(fields["started"]), moment(fields.pop("ended", None))
    if fields.get("latency_s") is None:
        if end is None:
            return "calls that had not ended"
        fields["latency_s"] = None if start is None else max(0.0, end - start)
    if start is not None:
        fields["started"] = start
    if isinstance(fields["tool"], str):
        fields["tool"] = _SUFFIX.sub("", _PREFIX.sub("", fields["tool"].strip()))
    failed = any(_holds(record, mark) for mark in dialect.failed) or at(fields.get("result"), "isError") is True
    fields["status"] = _failure(first(record, dialect.code), first(record, dialect.words)) if failed else "ok"
    if (price := fields.get("price")) is not None and (number(price) or 0.0) < 0.0:
        fields["price"] = None  # some programs write -1 for an unknown price
    return Draft(location, fields, fields.pop("span", None), fields.pop("parent", None), instead, about=record)


_IN_EVENTS = {
    "arguments": ("gen_ai.tool.message", "attributes.content"), "result": ("gen_ai.choice", "attributes.message"),
}  # fmt: skip
"""Where spans of earlier conventions keep what went into a call and came out: in events of these names."""


_ENVELOPES = {"arguments": ("inputs", "input_str"), "result": ("output",)}
"""What instrumentations of LangChain put around arguments and results, beside `kwargs`."""


def _of_event(record: Mapping[str, Any], name: str, path: str) -> Any:
    events = record.get("events")
    named = (
        (event for event in events if isinstance(event, dict) and event.get("name") == name) if isinstance(events, list) else ()
    )
    return next((value for entry in named if (value := at(entry, path)) is not None), None)


def _holds(record: Mapping[str, Any], condition: Condition) -> bool:
    for path, values in condition.items():
        value = at(record, path)
        if value is None or value == "" or value is False:
            return False
        if values and str(value).strip('"').lower()[:40] not in values:
            return False
    return True


def _failure(code: Any, words: Any) -> Any:
    """The HTTP status of a failure if it has one, else what its words say."""
    status = number(code)
    if status is not None and 400 <= status < 600:
        return int(status)
    return {"failure": f"{code or ''} {words or ''}".strip()}


def moment(value: Any) -> float | None:
    """A time in seconds since 1970: ISO 8601, or a number of seconds, milliseconds, microseconds or nanoseconds."""
    seconds = number(value)
    if seconds is None:
        return None
    scale = 1e9 if seconds >= _NANOSECONDS else 1e6 if seconds >= _MICROSECONDS else 1e3 if seconds >= _MILLISECONDS else 1.0
    return seconds / scale


def distinct(drafts: Iterable[Draft], parents: Mapping[str, Any]) -> tuple[list[Draft], dict[str, int]]:
    """The calls without those that another record has too, and how many are left out by reason: a client's and a server's span
    of one call; and spans that count only where no record says that it is a tool. `parents` has every record's parent."""
    listed = list(drafts)
    left_out: dict[str, int] = {}
    if instead := [draft for draft in listed if draft.instead]:
        tools = [draft for draft in listed if not draft.instead]
        outer = {str(parent) for parent in parents.values() if parent}
        chosen = tools or [draft for draft in instead if _is_step(draft, outer)]
        left_out["models, agents and other steps that are no calls of tools"] = len(listed) - len(chosen)
        listed = chosen
    names = {str(draft.span): draft.fields["tool"] for draft in listed if draft.span is not None}
    result = [draft for draft in listed if not _is_within_itself(draft, names, parents)]
    if len(result) < len(listed):
        left_out["spans within a call of the same tool"] = len(listed) - len(result)
    return result, {reason: count for reason, count in left_out.items() if count}


def _is_step(draft: Draft, outer: set[str]) -> bool:
    if "call_type" in draft.about:
        return True  # a log of models alone: they are its tools
    return draft.parent is not None and str(draft.span) not in outer and not _FRAMEWORK.match(str(draft.fields["tool"]))


def _is_within_itself(draft: Draft, names: Mapping[str, Any], parents: Mapping[str, Any]) -> bool:
    above = draft.parent
    for _ in range(50):
        if above is None:
            return False
        if names.get(str(above)) == draft.fields["tool"]:
            return True
        above = parents.get(str(above))
    return False
