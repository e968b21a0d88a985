"""Logs in the shapes that programs write give the right calls, say what they leave out, and never end in a traceback."""

import copy
import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from costgym.experiments.play.call_logs.conversations import text_of
from costgym.experiments.play.call_logs.log import Log, read_log
from costgym.simulators.errors import DataError
from costgym.simulators.status import Status
from tests.helpers.shared_data import ROOT

LOGS = ROOT / "data" / "cases" / "logs"
START = 1_772_355_600.0  # 2026-03-01 09:00 UTC
TIME, LATER = "2026-03-01T09:00:00Z", "2026-03-01T09:00:01.5Z"
TIMES = {"startTime": TIME, "endTime": LATER}
# name, calls, successes of the two tools, where they are not 60 calls with 50 and 56 successes
SHORTER = {"langfuse-running": (17, 14, 15), "otlp-truncated": (59, 49, 56)}


def shapes() -> list[str]:
    return sorted(path.name for path in LOGS.glob("*") if path.stem != "openai-messages") or ["none"]


@pytest.mark.parametrize("name", shapes())
def test_a_log_of_two_tools_with_known_rates_has_these_rates(name: str) -> None:
    if name == "none":
        pytest.skip("shared sample logs are not here")
    log = read_log(LOGS / name)
    calls, flights, hotels = SHORTER.get(name.split(".")[0], (60, 50, 56))
    works = Counter(call.tool for call in log.calls if call.status is Status.OK)
    assert works == {"search_flights": flights, "search_hotels": hotels}
    assert len(log.calls) == calls + (60 if name.startswith("otlp-tr") else calls)
    assert all(0.1 < call.latency_s < 60 for call in log.calls if call.latency_s is not None)


def attributes(**values: Any) -> list[dict[str, Any]]:
    return [{"key": key.replace("__", "."), "value": {"stringValue": value}} for key, value in values.items()]


def otlp(*spans: dict[str, Any]) -> dict[str, Any]:
    return {"resourceSpans": [{"resource": {"attributes": attributes(service__name="shop")}, "scopeSpans": [{"spans": spans}]}]}


def span(number: int, **fields: Any) -> dict[str, Any]:
    start = int(START * 1e9)
    return {
        "traceId": "t",
        "spanId": str(number),
        "startTimeUnixNano": start,
        "endTimeUnixNano": start + 1_500_000_000,
        **fields,
    }


TOOL = attributes(gen_ai__operation__name="execute_tool", gen_ai__tool__name="find")
TIMED_OUT = attributes(exception__message="request timed out")
CASES: dict[str, Any] = {
    "exception of a span": otlp(
        span(1, attributes=TOOL, status={"code": 2}, events=[{"attributes": TIMED_OUT}])
    ),
    "server's span of the same call": otlp(
        span(1, attributes=TOOL),
        span(2, parentSpanId="1", attributes=attributes(http__method="POST")),
        span(3, parentSpanId="2", name="tools/call find", attributes=attributes(mcp__method__name="tools/call")),
    ),
    "attributes in a column each": {
        "name": "find", "context.trace_id": "t", "context.span_id": "1", "span_kind": "TOOL", "start_time": TIME,
        "end_time": LATER, "status_code": "OK", "attributes.input.value": '{"city": "Bonn"}',
    },
    "attributes as a tree": {
        "name": "x", "context": {"trace_id": "t"}, "start_time": TIME, "end_time": LATER,
        "attributes": {"openinference": {"span": {"kind": "TOOL"}}, "tool": {"name": "find"}},
    },
    "MLflow": {
        "name": "find", "context": {"trace_id": "t", "span_id": "1"}, "start_time": int(START * 1e9),
        "end_time": int((START + 1.5) * 1e9), "attributes": {"mlflow.spanType": '"TOOL"', "mlflow.spanInputs": "{}"},
    },
    "OpenAI's Agents": {
        "object": "trace.span", "id": "s", "trace_id": "t", "started_at": TIME, "ended_at": LATER,
        "span_data": {"type": "function", "name": "find", "input": '{"city": "Bonn"}', "output": "[]"}, "error": None,
    },
    "Braintrust": {
        "span_id": "s", "root_span_id": "t", "span_attributes": {"type": "tool", "name": "find"},
        "metrics": {"start": START, "end": START + 1.5}, "input": {"city": "Bonn"}, "output": [],
    },
    "Datadog": {
        "name": "find", "span_id": "s", "trace_id": "t", "start_ns": int(START * 1e9), "duration": 1_500_000_000,
        "status": "ok", "meta": {"kind": "tool", "input": {"value": "{}"}},
    },
    "Opik": {"id": "s", "trace_id": "t", "type": "tool", "name": "find", "start_time": TIME, "end_time": LATER, "input": {}},
    "Langfuse without tools": [
        {"id": "a", "traceId": "t", "type": "SPAN", "name": "LangGraph", **TIMES},
        {"id": "b", "traceId": "t", "type": "SPAN", "name": "should_continue", "parentObservationId": "a", **TIMES},
        {"id": "c", "traceId": "t", "type": "SPAN", "name": "find", "parentObservationId": "a", **TIMES},
    ],
    "a session of Claude Code": [
        {"sessionId": "t", "timestamp": TIME, "message": {"role": "user", "content": "Find it."}},
        {"sessionId": "t", "timestamp": TIME, "message": {"role": "assistant", "content": [
            {"type": "tool_use", "id": "1", "name": "find", "input": {"city": "Bonn"}}]}},
        {"sessionId": "t", "timestamp": LATER, "message": {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "1", "content": "found"}]}},
    ],
}  # fmt: skip
UNTIMED: dict[str, Any] = {
    "OpenAI's messages": {"messages": [
        {"role": "user", "content": "Find it."},
        {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "find", "arguments": '{"city": "Bonn"}'}}]},
        {"role": "tool", "tool_call_id": "1", "content": "found"}]},
    "OpenAI's responses": {"messages": [
        {"role": "user", "content": [{"type": "input_text", "text": "Find it."}]},
        {"type": "function_call", "call_id": "1", "name": "find", "arguments": '{"city": "Bonn"}'},
        {"type": "function_call_output", "call_id": "1", "output": "found"}]},
    "LangChain's messages": {"messages": [
        {"type": "human", "content": "Find it."},
        {"type": "ai", "content": "", "tool_calls": [{"id": "1", "name": "find", "args": {"city": "Bonn"}}]},
        {"type": "tool", "tool_call_id": "1", "content": "found"}]},
    "ATIF": {"schema_version": "ATIF-v1.7", "session_id": "t", "steps": [
        {"source": "user", "message": "Find it."},
        {"source": "agent", "message": "", "tool_calls": [
            {"tool_call_id": "1", "function_name": "find", "arguments": {"city": "Bonn"}}],
         "observation": {"results": [{"source_call_id": "1", "content": "found"}]}}]},
    "a bare list of messages": [
        {"role": "user", "content": "Find it."},
        {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "find", "arguments": '{"city": "Bonn"}'}}]},
        {"role": "tool", "tool_call_id": "1", "content": "found"}],
}  # fmt: skip


def log_of(tmp_path: Path, value: Any, **options: Any) -> Log:
    path = tmp_path / "log.json"
    path.write_text(json.dumps(value))
    return read_log(path, **options)


@pytest.mark.parametrize("name", CASES)
def test_one_call_in_the_shape_of_a_program_is_one_call(tmp_path: Path, name: str) -> None:
    (call,) = log_of(tmp_path, CASES[name]).calls
    assert (call.tool, call.episode, call.started_s, call.latency_s) == ("find", "t", START, pytest.approx(1.5))
    assert call.status is (Status.TIMEOUT if name.startswith("exception") else Status.OK)


@pytest.mark.parametrize("name", UNTIMED)
def test_a_conversation_gives_calls_with_arguments_and_answers_and_what_was_asked(tmp_path: Path, name: str) -> None:
    log = log_of(tmp_path, UNTIMED[name])
    (call,) = log.calls
    arguments = call.arguments if isinstance(call.arguments, dict) else json.loads(call.arguments)
    assert (call.tool, call.latency_s, call.status) == ("find", None, Status.OK)
    assert (arguments, call.result) == ({"city": "Bonn"}, "found")
    assert list(log.queries.values()) == ["Find it."]


@pytest.mark.parametrize(
    ("answer", "status"),
    [("found", "ok"), ("", "empty"), ("Error: request timed out", "timeout"), ('{"error": "404"}', "not_found"),
     ('{"error": null, "rows": [1]}', "ok"), ("Terrors of the deep", "ok")],
)  # fmt: skip
def test_an_answer_in_a_conversation_says_how_its_call_ended(tmp_path: Path, answer: str, status: str) -> None:
    document = copy.deepcopy(UNTIMED["OpenAI's messages"])
    document["messages"][2]["content"] = answer
    assert log_of(tmp_path, document).calls[0].status.label == status


@pytest.mark.parametrize(
    "document",
    ["Find it.", '{"input": "Find it."}', {"messages": [["human"], {"role": "user", "content": "Find it."}]},
     [{"role": "system", "content": "Be kind."}, {"role": "user", "parts": [{"type": "text", "content": "Find it."}]}],
     {"messages": [{"kwargs": {"content": "Find it."}}]}],
)  # fmt: skip
def test_what_a_user_asked_is_found_in_what_programs_keep(document: Any) -> None:
    assert text_of(document) == "Find it."


def test_records_are_chosen_by_fields_and_what_is_left_out_is_counted(tmp_path: Path) -> None:
    document = otlp(span(1, attributes=TOOL), span(2, name="chat m", attributes=attributes(gen_ai__operation__name="chat")))
    log = log_of(tmp_path, document, where={"service.name": "shop"})
    assert log.records == {
        "left_out": {"models, agents and other steps that are no calls of tools": 1}, "unreadable": 0, "problems": []
    }  # fmt: skip
    assert log_of(tmp_path, document, where={"gen_ai.operation.name!": "chat"}).records["left_out"] == {
        "records that --where leaves out": 1
    }
    with pytest.raises(DataError, match=r"--where leaves out all records; they have service.name=shop"):
        log_of(tmp_path, document, where={"service.name": "store"})


def test_an_expression_names_calls_that_a_program_does_not(tmp_path: Path) -> None:
    document = otlp(span(1, name="chat m", attributes=attributes(function="find")), span(2, name="other", attributes=[]))
    times = {"started": "start_time", "latency_s": "latency_s", "status": "'ok'", "tool": "attributes.function"}
    log = log_of(tmp_path, document, fields=times)
    assert [call.tool for call in log.calls] == ["find"]
    assert log.records["left_out"] == {"records for which --map tool gives no name": 1}


def test_a_line_that_cannot_be_read_is_skipped_and_counted_up_to_a_tenth(tmp_path: Path) -> None:
    line = '{"tool": "a", "started": 1, "latency_s": 1, "status": "ok"}\n'
    path = tmp_path / "log.jsonl"
    path.write_text(line * 18 + '{"tool": 3, "started": 1, "latency_s": 1, "status": "ok"}\n' + line[:20])
    log = read_log(path)
    assert (len(log.calls), log.records["unreadable"]) == (18, 2)
    assert log.records["problems"][1] == "line 19: tool: expected a name, got 3"
    path.write_text(line * 8 + '{"fn": "a"}\n')
    with pytest.raises(
        DataError, match="line 9: the field 'tool' is missing; the record has fn; --map tool=EXPRESSION says where"
    ):
        read_log(path)


def test_agentpile_reads_what_it_knows(tmp_path: Path) -> None:
    pytest.importorskip("agentpile", reason="the extra `logs` is not installed")
    path = tmp_path / "run.json"
    path.write_text(json.dumps(UNTIMED["ATIF"] | {"agent": {"name": "a", "version": "1"}}))
    assert [call.tool for call in read_log(Path(f"agentpile:{path}")).calls] == ["find"]
    with pytest.raises(DataError, match=r"agentpile:none\.json: cannot be read"):
        read_log(Path("agentpile:none.json"))


# -- wrong types ------------------------------------------------------------------------------------------------------------

WRONG = ([], {}, [1], {"a": 1}, "x", "", 3, -1, 1.5, True, None, 10**400, 2**63, "1e999", "{", "[[", "\ud800", [None], {"": {}})


def spots(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a document."""
    yield path
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from spots(inner, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], other: Any) -> Any:
    if not path:
        return other
    result = copy.copy(value)
    result[path[0]] = replaced(value[path[0]], path[1:], other)
    return result


def documents() -> Iterator[Any]:
    yield from CASES.values()
    yield from UNTIMED.values()
    for name in shapes():
        if name.endswith((".json", ".jsonl")):
            text = (LOGS / name).read_text()
            yield json.loads(text if name.endswith(".json") else text.split("\n")[0])


def test_a_wrong_type_in_any_field_is_a_reading_or_one_sentence(tmp_path: Path) -> None:
    luck, path, tried = random.Random(3), tmp_path / "log.json", 0
    for document in documents():
        for where in list(spots(document))[:60]:
            for wrong in luck.sample(WRONG, 3):
                path.write_text(json.dumps(replaced(document, where, wrong)))
                tried += 1
                try:
                    read_log(path)
                except DataError as error:
                    assert "\n" not in str(error) and len(str(error)) < 700
    assert tried > (500 if shapes() == ["none"] else 1_000)  # without the sample logs there are fewer documents
