"""Spans of OTLP (in camel and snake case), Tempo, Jaeger and Datadog in one shape, that of an SDK's export:

{"name", "context": {"trace_id", "span_id"}, "parent_id", "start_time", "latency_s", "status", "attributes", "resource"}
"""

from collections.abc import Iterator, Mapping
from typing import Any

from costgym.experiments.play.call_logs.records import at, first

_RESOURCES = ("resourceSpans", "resource_spans", "batches", "trace.resourceSpans", "trace.batches")
_SCOPES = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans", "instrumentation_library_spans")
_VALUES = ("stringValue", "string_value", "doubleValue", "double_value", "boolValue", "bool_value")
_WHOLE = ("intValue", "int_value")
_LISTS = ("arrayValue.values", "array_value.values")
_MAPS = ("kvlistValue.values", "kvlist_value.values")
_DEEPEST = 20  # levels of lists and maps within an attribute
_ERROR = (2, "2", "STATUS_CODE_ERROR")


def spans_of(record: Mapping[str, Any]) -> Iterator[Mapping[str, Any]] | None:
    """The spans that a record of one of these formats holds; None for other records."""
    resources = first(record, _RESOURCES)
    if isinstance(resources, list):
        return _otlp(resources)
    if isinstance(record.get("spans"), list) and ("traceID" in record or "processes" in record):
        return _jaeger(record)
    if "start_ns" in record and "duration" in record:
        return iter([_datadog(record)])
    return None


def _objects(value: Any) -> Iterator[Mapping[str, Any]]:
    return (item for item in value if isinstance(item, dict)) if isinstance(value, list) else iter(())


def _otlp(resources: list[Any]) -> Iterator[Mapping[str, Any]]:
    for resource in _objects(resources):
        about = {"attributes": _attributes(at(resource, "resource.attributes"))}
        for scope in _objects(first(resource, _SCOPES)):
            for span in _objects(scope.get("spans")):
                start = first(span, ("startTimeUnixNano", "start_time_unix_nano"))
                failed = at(span, "status.code") in _ERROR
                yield {
                    "name": span.get("name"),
                    "context": {
                        "trace_id": first(span, ("traceId", "trace_id")),
                        "span_id": first(span, ("spanId", "span_id")),
                    },
                    "parent_id": first(span, ("parentSpanId", "parent_span_id")),
                    "start_time": _seconds(start, 0),
                    "latency_s": _seconds(first(span, ("endTimeUnixNano", "end_time_unix_nano")), start),
                    "status": {"status_code": "ERROR" if failed else "UNSET", "description": _words(span)},
                    "attributes": _attributes(span.get("attributes")),
                    "events": [
                        {"name": event.get("name"), "attributes": _attributes(event.get("attributes"))}
                        for event in _objects(span.get("events"))
                    ],
                    "resource": about,
                }


def _words(span: Mapping[str, Any]) -> Any:
    """What an error says: the message of the status, or of the exception that the span recorded."""
    if (message := at(span, "status.message")) is not None:
        return message
    events = (_attributes(event.get("attributes")) for event in _objects(span.get("events")))
    return next((event["exception.message"] for event in events if "exception.message" in event), None)


def _attributes(pairs: Any, depth: int = 0) -> dict[str, Any]:
    """Attributes as a list of keys and values; some exporters write a map."""
    if isinstance(pairs, dict):
        return {str(key): _value(value, depth) for key, value in pairs.items()}
    return {pair["key"]: _value(pair.get("value"), depth) for pair in _objects(pairs) if isinstance(pair.get("key"), str)}


def _value(value: Any, depth: int) -> Any:
    if not isinstance(value, dict) or depth > _DEEPEST:
        return value
    if (listed := first(value, _LISTS)) is not None:
        return [_value(item, depth + 1) for item in _objects(listed)]
    if (pairs := first(value, _MAPS)) is not None:
        return _attributes(pairs, depth + 1)
    whole = first(value, _WHOLE)
    return first(value, _VALUES) if whole is None else _whole(whole)


def _whole(value: Any) -> Any:
    """A whole number, which OTLP writes as a text."""
    digits = value.removeprefix("-") if isinstance(value, str) else ""
    return int(value) if digits.isascii() and digits.isdigit() and len(digits) < 20 else value


def _seconds(end: Any, start: Any) -> float | None:
    """Seconds between two times in nanoseconds, in whole numbers: a double cannot hold nanoseconds since 1970."""
    try:
        return max(0, int(end) - int(start)) / 1e9
    except (TypeError, ValueError, OverflowError):
        return None


def _jaeger(trace: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for span in _objects(trace.get("spans")):
        tags = {tag["key"]: tag.get("value") for tag in _objects(span.get("tags")) if isinstance(tag.get("key"), str)}
        failed = tags.get("error") is True or str(tags.get("otel.status_code")).upper() == "ERROR"
        process = at(trace, f"processes.{span.get('processID')}")
        about = {tag["key"]: tag.get("value") for tag in _objects(at(process, "tags")) if isinstance(tag.get("key"), str)}
        yield {
            "name": span.get("operationName"),
            "context": {"trace_id": span.get("traceID"), "span_id": span.get("spanID")},
            "parent_id": at(span, "references.0.spanID"),
            "start_time": _microseconds(span.get("startTime")),
            "latency_s": _microseconds(span.get("duration")),
            "status": {"status_code": "ERROR" if failed else "UNSET", "description": tags.get("otel.status_description")},
            "attributes": tags,
            "resource": {"attributes": {"service.name": at(process, "serviceName"), **about}},
        }


def _microseconds(value: Any) -> float | None:
    seconds = _seconds(value, 0)
    return None if seconds is None else seconds * 1e3


def _datadog(span: Mapping[str, Any]) -> Mapping[str, Any]:
    failed = str(span.get("status")).lower() == "error"
    return {
        **span,
        "context": {"trace_id": span.get("trace_id"), "span_id": span.get("span_id")},
        "start_time": _seconds(span.get("start_ns"), 0),
        "latency_s": _seconds(span.get("duration"), 0),
        "status": {"status_code": "ERROR" if failed else "UNSET", "description": at(span, "meta.error.message")},
    }
