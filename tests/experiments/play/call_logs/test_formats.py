"""Logs of other programs give the same calls as a log of our own; expressions read what no format names."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("scipy", reason="the extra `train` is not installed")

import costgym
from costgym.cli.data.calibrate import calibrate as calibrate_command
from costgym.cli.setting_options import with_options
from costgym.experiments.fit.calibration.calibrate import calibrate
from costgym.experiments.play.call_logs.expressions import parse_fields
from costgym.experiments.play.call_logs.log import LoggedCall, read_log
from costgym.simulators.scenario import load_scenario
from costgym.simulators.status import Status

command = with_options(calibrate_command)

START = 1_772_355_600.0  # 2026-03-01 09:00 UTC


def some_calls(count: int = 300) -> list[LoggedCall]:
    """A steady and a shaky tool; a tenth of the shaky one's failures are time-outs, the others HTTP 500."""
    draws, lines = np.random.default_rng(1), []
    for index in range(count):
        for tool, rate, median in (("search", 0.97, 0.4), ("fetch", 0.75, 1.5)):
            status = Status.OK
            if draws.random() >= rate:
                status = Status.TIMEOUT if draws.random() < 0.1 else Status.SERVER_ERROR
            seconds = 30.0 if status is Status.TIMEOUT else round(median * float(draws.lognormal(0, 0.3)), 6)
            lines.append(LoggedCall(tool, START + 10.0 * index, seconds, status, episode=f"t{index // 10}"))
    return lines


def iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def failed(call: LoggedCall) -> bool:
    return call.status is not Status.OK


def words(call: LoggedCall) -> str:
    return "request timed out" if call.status is Status.TIMEOUT else "500 Internal Server Error"


def span(call: LoggedCall) -> dict[str, Any]:
    attributes: dict[str, Any] = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": call.tool}
    if failed(call):
        attributes["error.type"] = "timeout" if call.status is Status.TIMEOUT else "500"
    return {
        "name": f"execute_tool {call.tool}",
        "context": {"trace_id": call.episode, "span_id": "0x1"},
        "start_time": iso(call.started_s),
        "end_time": iso(call.started_s + call.latency_s),
        "status": {"status_code": "ERROR" if failed(call) else "UNSET"},
        "attributes": attributes,
    }


def otlp(calls: list[LoggedCall]) -> str:
    def one(call: LoggedCall) -> dict[str, Any]:
        plain = span(call)
        start = round(call.started_s) * 10**9
        return {
            "traceId": call.episode, "name": plain["name"], "startTimeUnixNano": str(start),
            "endTimeUnixNano": str(start + round(call.latency_s * 1e9)),
            "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in plain["attributes"].items()],
            "status": {"code": 2} if failed(call) else {},
        }  # fmt: skip

    model = {"traceId": "t", "name": "chat", "startTimeUnixNano": "1", "endTimeUnixNano": "2", "attributes": []}
    lines = [
        {"resourceSpans": [{"scopeSpans": [{"spans": [model, *map(one, calls[i : i + 50])]}]}]}
        for i in range(0, len(calls), 50)
    ]
    return "".join(json.dumps(line) + "\n" for line in lines)


def langfuse(calls: list[LoggedCall]) -> str:
    records: list[dict[str, Any]] = [
        {"id": "1", "traceId": "t0", "type": "GENERATION", "name": "chat", "startTime": iso(START), "endTime": iso(START + 1)}
    ]
    records += [
        {
            "id": "2", "traceId": call.episode, "type": "TOOL", "name": call.tool, "startTime": iso(call.started_s),
            "endTime": iso(call.started_s + call.latency_s), "level": "ERROR" if failed(call) else "DEFAULT",
            "statusMessage": words(call) if failed(call) else None, "costDetails": {"total": 0.25},
        }
        for call in calls
    ]  # fmt: skip
    return json.dumps({"data": records, "meta": {"page": 1}})


def langsmith(calls: list[LoggedCall]) -> str:
    runs: list[dict[str, Any]] = [{"run_type": "llm", "name": "chat", "start_time": iso(START), "end_time": iso(START)}]
    runs += [
        {
            "run_type": "tool", "name": call.tool, "trace_id": call.episode, "start_time": iso(call.started_s),
            "end_time": iso(call.started_s + call.latency_s), "error": words(call) if failed(call) else None,
            "status": "error" if failed(call) else "success",
        }
        for call in calls
    ]  # fmt: skip
    return "".join(json.dumps(run) + "\n" for run in runs)


def litellm(calls: list[LoggedCall]) -> str:
    def one(call: LoggedCall) -> dict[str, Any]:
        code = {Status.TIMEOUT: "504", Status.SERVER_ERROR: "500"}.get(call.status)
        return {
            "id": "1", "call_type": "call_mcp_tool", "status": "failure" if failed(call) else "success", "response_cost": 0.25,
            "startTime": call.started_s, "endTime": call.started_s + call.latency_s, "trace_id": call.episode, "model": "m",
            "metadata": {"mcp_tool_call_metadata": {"name": call.tool}}, "error_str": words(call) if failed(call) else None,
            "error_information": {"error_code": code} if code else None,
        }  # fmt: skip

    return "".join(json.dumps(one(call)) + "\n" for call in calls)


FORMATS: dict[str, Callable[[list[LoggedCall]], str]] = {
    "opentelemetry": lambda calls: "".join(json.dumps(span(call)) + "\n" for call in calls),
    "otlp": otlp,
    "langfuse": langfuse,
    "langsmith": langsmith,
    "litellm": litellm,
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_calls_that_were_written(tmp_path: Path, name: str) -> None:
    calls = some_calls(60)
    path = tmp_path / "log.json"
    path.write_text(FORMATS[name](calls))
    logged = read_log(path).calls
    assert [(c.tool, c.status, c.episode) for c in logged] == [(c.tool, c.status, c.episode) for c in calls]
    assert [c.latency_s for c in logged] == pytest.approx([c.latency_s for c in calls], abs=2e-6)
    assert [c.started_s for c in logged] == pytest.approx([c.started_s for c in calls])
    assert {c.price for c in logged} == ({0.25} if name in ("langfuse", "litellm") else {None})


@pytest.mark.parametrize("name", ["opentelemetry", pytest.param("langfuse", marks=pytest.mark.slow), "litellm"])
def test_a_world_fitted_to_it_reproduces_the_log_or_names_what_it_misses(tmp_path: Path, name: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(FORMATS[name](some_calls()))
    report = calibrate(path).report
    for tool, row in report["tools"].items():
        low, high = row["reproduced"]["success"]["ci95"]
        assert low <= row["reproduced"]["success"]["world"] <= high, tool
        for figure in row["reproduced"].values():
            assert figure["within"] == (figure["ci95"][0] * 0.9999 <= figure["world"] <= figure["ci95"][1] * 1.0001)
    missed = sum(not figure["within"] for row in report["tools"].values() for figure in row["reproduced"].values())
    assert len(report["not_reproduced"]) == missed


def test_what_the_world_cannot_do_is_named(tmp_path: Path) -> None:
    quick = [i % 4 == 0 for i in range(400)]
    records = [
        {"tool": "a", "started": 10 * i, "latency_s": 0.01 if fails else 1.0 + 0.01 * (i % 9), "status": 500 if fails else 200}
        for i, fails in enumerate(quick)
    ]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    named = calibrate(path).report["not_reproduced"]
    assert any(line.startswith("a: median latency of failures is 0.01 s in the log") for line in named)


def test_a_recognised_log_without_tools_says_so(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps({"run_type": "llm", "name": "chat"}))
    with pytest.raises(costgym.DataError, match="is a log of langsmith and has no call of a tool"):
        read_log(path)


# -- expressions, prices, tasks -----------------------------------------------------------------------------------------------

RECORD = {
    "a": {"b": [1, {"c d": 4}]},
    "ms": 250,
    "text": "x",
    "from": "2026-03-01T09:00:00Z",
    "to": "2026-03-01T09:00:02.5Z",
    "no": None,
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a.b.0", 1), ('a.b.1["c d"]', 4), ("ms / 1000", 0.25), ("to - from", 2.5), ("2 + 3 * 4", 14.0), ("(2 + 3) * 4", 20.0),
        ("no or missing or 'z'", "z"), ("text == 'x'", True), ("text != 'x'", False), ("missing == null", True),
        ("ms / 0", None),
        ("text * 2", None), ("a.b.9", None), ("1.5e2", 150.0), ("8 - 3 - 2", 3.0), ("true", True),
    ],
)  # fmt: skip
def test_an_expression_is_what_it_says(text: str, value: Any) -> None:
    assert parse_fields({"price": text})["price"](RECORD) == value


@pytest.mark.parametrize(
    "text", ["", "a.", "a[", "a[b]", "(1", "1 +", "f(x)", "a b", "__import__('os')", "1 ; 2", "a or", "(" * 60 + "1"]
)
def test_a_bad_expression_is_named(text: str) -> None:
    with pytest.raises(costgym.ConfigError, match="--map price"):
        parse_fields({"price": text})
    with pytest.raises(costgym.ConfigError, match="there is no field 'cost'"):
        parse_fields({"cost": "1"})


def test_a_log_of_another_shape_is_read_by_expressions_with_prices_and_tasks_of_ones_own(tmp_path: Path) -> None:
    records = [
        {"fn": {"name": "geo"}, "t0": 1000 * i, "ms": 100 + i % 7, "error": None if i % 5 else "boom", "user": i // 6}
        for i in range(120)
    ]
    path, tasks = tmp_path / "odd.jsonl", tmp_path / "tasks.yaml"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    tasks.write_text("- {query: 'Where is it?', needs: [{capability: geo, fact: '52.5'}]}\n")
    mapped = ["tool=fn.name", "started=t0/1000", "latency_s=ms/1000", "status=error == null", "episode=user"]
    out, page = tmp_path / "geo.yaml", tmp_path / "geo.html"
    command(path, out, mapped=mapped, price=["geo=0.01"], tasks=tasks, page=page, quiet=True)
    scenario = load_scenario(out)
    assert scenario.source.tasks[0].query == "Where is it?"  # type: ignore[union-attr]
    assert scenario.source.tools[0].profile["fee"] == 0.01  # type: ignore[union-attr]
    text = page.read_text()
    assert "<h2>geo</h2>" in text and text.count("<svg") == 2 and "script" not in text
    with pytest.raises(costgym.ConfigError, match="the log has no tool 'gps'"):
        command(path, out, mapped=mapped, price=["gps=1"])
    with pytest.raises(costgym.ConfigError, match="expected FIELD=EXPRESSION"):
        command(path, out, mapped=["tool"])
    with pytest.raises(costgym.DataError, match="expected a list of tasks"):
        tasks.write_text("query: one\n")
        command(path, out, mapped=mapped, tasks=tasks)
