"""Logs of other programs: OpenTelemetry's GenAI spans, Langfuse, LangSmith, LiteLLM and AWS Lambda; and of our own proxy.

Each reader turns a record into the plain fields of `log`, or into None where it is no call of a tool. The format is recognised
from the records themselves.

| format | what counts as a call |
| --- | --- |
| OpenTelemetry, OTLP JSON or one span a line | spans with `gen_ai.tool.name` |
| Langfuse, observations | observations of type TOOL; spans where there are none |
| LangSmith, runs | runs of type tool |
| LiteLLM, standard logging payloads or spend logs | calls of MCP tools and of models |
| AWS Lambda, text or JSON | REPORT lines and `platform.report` events |
| `costgym proxy` and `costgym.chaos` | calls that the world or the tool itself ended |
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ....simulators.errors import DataError
from .expressions import number

Record = Mapping[str, Any]
Found = tuple[str, dict[str, Any] | None]
"""The place of a record in its file, and its fields."""
CALL_LOG = "costgym.calls/1"
"""What a run's first record in a log of `experiments.proxy` says."""
BETWEEN_RUNS_S = 86_400.0
"""Time between two runs of a log, longer than any window of a rate limit."""
_REPORT = re.compile(r"REPORT RequestId:\s*(?P<id>\S+)(?P<rest>.*)")
_METRIC = re.compile(r"(?P<name>[A-Z][A-Za-z ]+?):\s*(?P<value>[\d.]+)\s*(?:ms|MB)")
_STATUS = re.compile(r"Status:\s*(?P<status>\w+)")
_TIMED_OUT = re.compile(r"(?P<id>[0-9a-f-]{36})\s+Task timed out")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?")
_GROUP = re.compile(r"/aws/lambda/([\w-]+)")


def read_documents(path: Path, text: str) -> list[tuple[str, Any]]:
    """The JSON values of a file and their places: a document, the items of a list, or one value a line.

    Raises:
        DataError: a line is not valid JSON.
    """
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
        if record.get("type") == "platform.report" or "REPORT RequestId" in str(record.get("message", "")):
            return "lambda"
        if "run_type" in record:
            return "langsmith"
        if "call_type" in record or "standard_logging_object" in record:
            return "litellm"
        if {"traceId", "startTime", "type"} <= record.keys():
            return "langfuse"
    return None


def converted(name: str, records: Sequence[tuple[str, Any]], path: Path) -> Iterator[Found]:
    """The fields of each record of a recognised format; None for records that are no calls of tools."""
    if name == "opentelemetry":
        for place, record in records:
            yield from _spans(place, record)
    elif name == "lambda":
        yield from _reports(records, path)
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


def is_lambda_text(text: str) -> bool:
    """The file has REPORT lines of AWS Lambda, as text."""
    return "REPORT RequestId" in text and not text.lstrip().startswith(("{", "["))


def lambda_lines(text: str) -> list[tuple[str, Any]]:
    """The lines of a text log as records of one message each."""
    return [(f"line {index}", {"message": line}) for index, line in enumerate(text.split("\n"), 1) if line.strip()]


def _lasts(start: Any, end: Any, unit: float = 1.0) -> float | None:
    begin, stop = number(start), number(end)
    return None if begin is None or stop is None else max(0.0, (stop - begin) * unit)


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


def _reports(records: Sequence[tuple[str, Any]], path: Path) -> Iterator[Found]:
    late = {m["id"] for _, r in records if isinstance(r, dict) and (m := _TIMED_OUT.search(str(r.get("message", ""))))}
    clock = 0.0
    for place, record in records:
        report = _report(record) if isinstance(record, dict) else None
        if report is None:
            yield place, None
            continue
        identifier, metrics, status, at = report
        lasts = (metrics.get("Duration", 0.0) + metrics.get("Init Duration", 0.0)) / 1000.0
        clock = at - lasts if at is not None else clock + lasts + 1e-3  # without times, the order stands for them
        group = _GROUP.search(json.dumps(record))
        yield (
            place,
            {
                "tool": group[1] if group else path.stem,
                "started": clock,
                "latency_s": lasts,
                "status": "timeout"
                if status == "timeout" or identifier in late
                else "ok"
                if status in ("", "success")
                else "error",
                "cold": "Init Duration" in metrics,
            },
        )


def _report(record: Record) -> tuple[str, dict[str, float], str, float | None] | None:
    """A report's request, metrics, status, and when it was written."""
    inner, message = record.get("record"), record.get("message", "")
    if record.get("type") == "platform.report" and isinstance(inner, dict):
        given = inner.get("metrics") or {}
        metrics = {"Duration": number(given.get("durationMs")) or 0.0}
        if given.get("initDurationMs") is not None:
            metrics["Init Duration"] = number(given["initDurationMs"]) or 0.0
        return str(inner.get("requestId")), metrics, str(inner.get("status", "")), number(record.get("time"))
    match = _REPORT.search(str(message))
    if match is None:
        return None
    metrics = {each["name"].strip(): float(each["value"]) for each in _METRIC.finditer(match["rest"])}
    status = _STATUS.search(match["rest"])
    written, stamp = number(record.get("timestamp")), _TIME.search(str(message))
    at = written / 1000.0 if written is not None else number(stamp[0]) if stamp else None
    return match["id"], metrics, status["status"] if status else "", at


# -- statuses and prices ----------------------------------------------------------------------------------------------------


def _failure(code: Any, words: Any) -> Any:
    """A failure's HTTP status if it has one, else what its words say."""
    status = number(code)
    if status is not None and 400 <= status < 600:
        return int(status)
    return {"failure": f"{code or ''} {words or ''}".strip()}


def _money(*values: Any) -> float | None:
    return next((money for value in values if (money := number(value)) is not None and money >= 0), None)
