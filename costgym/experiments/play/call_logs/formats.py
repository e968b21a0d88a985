"""Logs of other programs: OpenTelemetry's GenAI spans, Langfuse, LangSmith and LiteLLM; and of our own proxy.

Each reader turns a record into the plain fields of `log`, or into None where it is no call of a tool (docs/calibrate.md says
what counts as one). The format is recognised from the records themselves.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from costgym.experiments.play.call_logs.expressions import number
from costgym.simulators.errors import DataError

Record = Mapping[str, Any]
Found = tuple[str, dict[str, Any] | None]  # the place of a record in its file, and its fields
CALL_LOG = "costgym.calls/1"  # what a run's first record in a log of `experiments.proxy` says
BETWEEN_RUNS_S = 86_400.0  # time between two runs of a log, longer than any window of a rate limit


def read_documents(path: Path, text: str) -> list[tuple[str, Any]]:
    """The JSON values of a file and their places: a document, the items of a list, or one value a line."""
    try:
        whole = json.loads(text)
    except ValueError:
        whole = None
    except RecursionError:
        raise DataError(path, "is nested too deeply") from None
    if whole is not None:
        if isinstance(whole, dict):
            inner = next(
                (whole[name] for name in ("data", "observations", "runs", "events") if _records(whole.get(name))), None
            )
            whole = inner if inner is not None else [whole]
        if not isinstance(whole, list):
            raise DataError(path, f"expected JSON objects, got {type(whole).__name__}")
        return [(f"record {index}", value) for index, value in enumerate(whole, 1)]
    found = []
    for index, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                found.append((f"line {index}", json.loads(line)))
            except (ValueError, RecursionError) as error:
                raise DataError(path, f"is not valid JSON ({error})", f"line {index}") from None
    return found


def _records(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def recognise(records: Sequence[tuple[str, Any]]) -> str | None:
    """The name of the format, or None for our own."""
    for _, record in records[:50]:
        if isinstance(record, dict) and record.get("format") == CALL_LOG:
            return "costgym proxy"
        if not isinstance(record, dict) or {"tool", "latency_s"} <= record.keys():
            continue
        if "resourceSpans" in record or ("attributes" in record and {"context", "start_time"} <= record.keys()):
            return "opentelemetry"
        if "run_type" in record:
            return "langsmith"
        if "call_type" in record or "standard_logging_object" in record:
            return "litellm"
        if {"traceId", "startTime", "type"} <= record.keys():
            return "langfuse"
    return None


def converted(name: str, records: Sequence[tuple[str, Any]]) -> Iterator[Found]:
    """The fields of each record of a recognised format; None for records that are no calls of tools."""
    if name == "opentelemetry":
        for place, record in records:
            yield from _spans(place, record)
    elif name == "costgym proxy":
        yield from _runs(records)
    else:
        if name == "langfuse":
            types = {str(r.get("type")).upper() for _, r in records if isinstance(r, dict)}
            kind = "TOOL" if "TOOL" in types else "SPAN"
        for place, record in records:
            if not isinstance(record, dict):
                yield place, None
            elif name == "langfuse":
                yield place, _langfuse(record) if str(record.get("type")).upper() == kind else None
            else:
                yield place, {"langsmith": _langsmith, "litellm": _litellm}[name](record)


def _lasts(start: Any, end: Any) -> float | None:
    begin, stop = number(start), number(end)
    return None if begin is None or stop is None else max(0.0, stop - begin)


# -- one reader a format ----------------------------------------------------------------------------------------------------


def _spans(place: str, record: Any) -> Iterator[Found]:
    if not isinstance(record, dict):
        yield place, None
    elif "resourceSpans" not in record:
        context = record.get("context") or {}
        status = record.get("status") or {}
        failed = str(status.get("status_code", "")).upper().endswith("ERROR")
        times = record.get("start_time"), _lasts(record.get("start_time"), record.get("end_time"))
        yield (
            place,
            _tool_span(record.get("attributes") or {}, times, failed, status.get("description"), context.get("trace_id")),
        )
    else:
        for resource in record["resourceSpans"] or ():
            for scope in resource.get("scopeSpans") or ():
                for span in scope.get("spans") or ():
                    values = {each["key"]: _any_value(each.get("value") or {}) for each in span.get("attributes") or ()}
                    status = span.get("status") or {}
                    failed = status.get("code") in (2, "2", "STATUS_CODE_ERROR")
                    start, end = span.get("startTimeUnixNano"), span.get("endTimeUnixNano")
                    begin = number(start)
                    times = None if begin is None else begin * 1e-9, None if begin is None else _nanoseconds(start, end)
                    yield place, _tool_span(values, times, failed, status.get("message"), span.get("traceId"))


def _nanoseconds(start: Any, end: Any) -> float | None:
    try:
        return max(0, int(end) - int(start)) * 1e-9  # in whole numbers: a double cannot hold nanoseconds since 1970
    except (TypeError, ValueError):
        return None


def _any_value(value: Record) -> Any:
    return next((each for name, each in value.items() if name != "arrayValue"), None)


def _tool_span(attributes: Record, times: tuple[Any, Any], failed: bool, words: Any, trace: Any) -> dict[str, Any] | None:
    tool = attributes.get("gen_ai.tool.name")
    if tool is None or attributes.get("gen_ai.operation.name", "execute_tool") != "execute_tool":
        return None
    code = attributes.get("http.response.status_code") or attributes.get("error.type")
    failed = failed or attributes.get("error.type") is not None
    return {
        "tool": tool, "started": times[0], "latency_s": times[1], "episode": attributes.get("gen_ai.conversation.id") or trace,
        "status": _failure(code, words) if failed else "ok",
    }  # fmt: skip


def _runs(records: Sequence[tuple[str, Any]]) -> Iterator[Found]:
    """The calls of runs, whose clocks all begin at 0, one run after the other."""
    lasts: dict[str, float] = {}
    for _, record in records:
        if "tool" in record:
            end = float(record["started"]) + float(record["latency_s"])
            lasts[record["run"]] = max(lasts.get(record["run"], 0.0), end)
    begins, at = {}, 0.0
    for run, end in lasts.items():
        begins[run] = at
        at += end + BETWEEN_RUNS_S
    for place, record in records:
        if "tool" not in record:
            yield place, None
        else:
            yield place, {**record, "started": begins[record["run"]] + record["started"], "episode": record["run"]}


def _langfuse(record: Record) -> dict[str, Any]:
    costs, usage = record.get("costDetails") or {}, record.get("usageDetails") or {}
    return {
        "tool": record.get("name"),
        "started": record.get("startTime"),
        "latency_s": _lasts(record.get("startTime"), record.get("endTime")),
        "status": _failure(None, record.get("statusMessage")) if str(record.get("level")).upper() == "ERROR" else "ok",
        "price": _money(record.get("totalCost"), record.get("calculatedTotalCost"), costs.get("total")),
        "input_tokens": usage.get("input"),
        "output_tokens": usage.get("output"),
        "episode": record.get("sessionId") or record.get("traceId"),
    }


def _langsmith(record: Record) -> dict[str, Any] | None:
    if record.get("run_type") != "tool":
        return None
    failed = bool(record.get("error")) or record.get("status") == "error"
    return {
        "tool": record.get("name"),
        "started": record.get("start_time"),
        "latency_s": _lasts(record.get("start_time"), record.get("end_time")),
        "status": _failure(None, record.get("error")) if failed else "ok",
        "price": _money(record.get("total_cost")),
        "episode": record.get("trace_id") or record.get("session_id"),
    }


def _litellm(record: Record) -> dict[str, Any] | None:
    record = record.get("standard_logging_object") or record
    metadata = record.get("metadata") or {}
    if isinstance(metadata, str):
        try:
            metadata = json.loads(metadata)
        except ValueError:
            metadata = {}
    called = (metadata.get("mcp_tool_call_metadata") if isinstance(metadata, dict) else None) or {}
    error = record.get("error_information") or {}
    failed = record.get("status") == "failure" or bool(record.get("error_str") or error.get("error_code"))
    return {
        "tool": called.get("name") or record.get("model"),
        "started": record.get("startTime"),
        "latency_s": _lasts(record.get("startTime"), record.get("endTime")),
        "status": _failure(error.get("error_code"), record.get("error_str") or error.get("error_class")) if failed else "ok",
        "price": _money(record.get("response_cost"), record.get("spend")),
        "input_tokens": record.get("prompt_tokens"),
        "output_tokens": record.get("completion_tokens"),
        "episode": record.get("session_id") or record.get("trace_id"),
    }


# -- statuses and prices ----------------------------------------------------------------------------------------------------


def _failure(code: Any, words: Any) -> Any:
    """A failure's HTTP status if it has one, else what its words say."""
    status = number(code)
    if status is not None and 400 <= status < 600:
        return int(status)
    return {"failure": f"{code or ''} {words or ''}".strip()}


def _money(*values: Any) -> float | None:
    return next((money for value in values if (money := number(value)) is not None and money >= 0), None)
