"""Untrusted logs: each gives one sentence and no file, or a world whose names and page are safe, in bounded time."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("scipy", reason="the extra `train` is not installed")

from costgym.cli.data.calibrate import calibrate
from costgym.cli.setting_options import with_options
from costgym.cli.tools.forge import forge
from costgym.experiments.play.call_logs.model_calls import read_model_calls
from costgym.simulators.errors import CostGymError
from costgym.simulators.scenario import load_scenario
from tests.helpers.specifications import INJECTIONS

SECONDS = 60.0
"""Longest time for one log on a machine that ten others use."""
TIME = "2026-03-01T09:00:00Z"
OWN = {"tool": "find", "started": 1, "latency_s": 1, "status": "ok"}


def span(number: int = 1, **more: Any) -> dict[str, Any]:
    ids = {"trace_id": "t", "span_id": str(number)}
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find"}
    return {"name": "find", "context": ids, "start_time": TIME, "end_time": TIME, "attributes": tool, **more}


def conversation(
    tool: Any = "find", question: Any = "Where is it?", arguments: Any = "{}", result: Any = "Bergen"
) -> dict[str, Any]:
    call = {"id": "c", "function": {"name": tool, "arguments": arguments}}
    answer = {"role": "tool", "tool_call_id": "c", "content": result}
    return {
        "session_id": "s",
        "messages": [{"role": "user", "content": question}, {"role": "assistant", "tool_calls": [call]}, answer],
    }


def nested(levels: int, inner: Any, key: str) -> Any:
    for _ in range(levels):
        inner = {key: inner}
    return inner


def files() -> Iterator[tuple[str, str, bytes]]:
    """Files that are no logs, or would take time or memory: a name, the file's, and the bytes."""
    for name, data in {
        "nothing": b"",
        "spaces": b" \n\t\n",
        "null": b"null",
        "a number": b"7",
        "a text": b'"hello"',
        "prose": b"We met at nine.",
        "no records": b"[]",
        "an empty record": b"{}",
        "lists of lists": b"[[], [[]], [1]]",
        "numbers": b"[1, 2, 3]",
        "deep lists": b"[" * 200_000,
        "deep mappings": b'{"a":' * 100_000,
        "deep but closed": b"[" * 900 + b"]" * 900,
        "not a number": b'{"tool": "a", "started": NaN, "latency_s": Infinity, "status": "ok"}',
        "latin-1": b'{"tool": "\xe9"}',
        "UTF-16": '{"tool": "a"}'.encode("utf-16"),
        "null bytes": b'{"tool": "\x00"}\x00',
        "a mark alone": b"\xef\xbb\xbf",
        "an archive": b"PK\x03\x04" + bytes(200),
        "a page": b"<!DOCTYPE html><script>alert(1)</script>",
        "XML": b"<spans><span/></spans>",
        "YAML": b"spans:\n  - &a {b: *a}\n",
        "a huge number": b'{"tool": ' + b"9" * 100_000 + b"}",
        "one key": b'{"' + b"k" * 10**6 + b'": 1}',
        "cut lines": b'{"tool": "a", "sta\n' * 500,
        "carriage returns": b'{"tool": "a"}\r' * 500,
        "same keys": b'{"tool": "a", "tool": 1}',
        "many that are no records": b"1\n" * 20_000,
        "a million brackets in a line": b"{}" * 500_000,
    }.items():
        yield name, "log.jsonl", data
    for name, data in {
        "a table without rows": b"tool,started,latency_s,status\n",
        "a quote that never ends": b'tool,started\n"' + b"a" * 10**6,
        "more cells than names": b"tool,status\n" + b"a,ok,b,c\n" * 50,
        "no names": b",,,\n,,,\n",
        "a table of one column": b"tool\na\nb\n",
        "ten thousand columns": b",".join(b"c%d" % n for n in range(10_000)) + b"\n1\n",
    }.items():
        yield name, "log.csv", data


def records() -> Iterator[tuple[str, Any]]:
    """Records with a wrong or boundless part."""
    yield "a span above itself", [span(1, parent_id="1")] * 3
    yield "spans above each other", [span(1, parent_id="2"), span(2, parent_id="1")]
    yield "three hundred spans in each other", [span(number, parent_id=str(number - 1)) for number in range(300)]
    yield "wrappers in wrappers", nested(300, [OWN], "data")
    yield "a path of a thousand dots", {**span(), "attributes": {".".join("a" * 1_000): 1, "gen_ai.tool.name": "find"}}
    deep: Any = {"stringValue": "x"}
    for _ in range(200):
        deep = {"kvlistValue": {"values": [{"key": "a", "value": deep}]}}
    attributes = [
        {"key": "gen_ai.tool.name", "value": {"stringValue": "find"}},
        {"key": "gen_ai.tool.call.arguments", "value": deep},
    ]
    times = {"startTimeUnixNano": 1, "endTimeUnixNano": 2}
    yield (
        "lists of keys 200 deep",
        {"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "a", **times, "attributes": attributes}]}]}]},
    )
    for kind in (None, 1, "x", [], {}, [None], [1], {"a": None}, True, 1e308):
        yield f"resources of {kind!r}", {"resourceSpans": kind}
        yield f"spans of {kind!r}", {"resourceSpans": [{"scopeSpans": [{"spans": kind}]}]}
        yield f"a payload of {kind!r}", [{"type": "response_item", "timestamp": kind, "payload": kind}] * 2
        yield f"messages of {kind!r}", {"messages": kind}
        yield f"arguments of {kind!r}", conversation(arguments=kind)
        yield f"a start at {kind!r}", {**OWN, "started": kind}
    for time_of_it in ("never", "9999999999-01-01T00:00:00Z", -1e300, "1e999", "2026-02-30T00:00:00Z"):
        yield f"a span from {time_of_it}", span(start_time=time_of_it)
        yield f"a call of {time_of_it} s", {**OWN, "latency_s": time_of_it}
    for status in ("", 99_999, [200], {"code": 200}, "ok" * 10_000):
        yield f"a status {str(status)[:20]}", {**OWN, "status": status}
    for price in (-1, "free", 1e308, [1]):
        yield f"a price of {price}", {**OWN, "price": price}
    yield "an answer without a call", {"messages": [{"role": "tool", "tool_call_id": "c", "content": "x"}]}
    yield "a call without an answer", {"messages": conversation()["messages"][:2]}
    yield "the same call a thousand times", {"messages": conversation()["messages"] * 1_000}
    yield "arguments a hundred deep", conversation(arguments=json.dumps(nested(100, 1, "a")))
    yield "arguments of a megabyte", conversation(arguments=json.dumps({"a": "x" * 10**6}))
    yield "a result of ten megabytes", conversation(result="x" * 10**7)
    yield "steps that are a text", {"schema_version": "ATIF-v1.7", "steps": ["x"], "session_id": 1}
    for name, text in INJECTIONS.items():
        yield f"{name} as a tool", conversation(tool=text)
        yield f"{name} in a query", conversation(question=f"{text} Where is it?")
        yield f"{name} in arguments", conversation(arguments=json.dumps({text: text}))
        yield f"{name} in a result", conversation(result=json.dumps({"a": text}))


LOGS = [*files(), *((name, "log.jsonl", json.dumps(value).encode()) for name, value in records())]


def test_there_are_a_hundred_hostile_logs() -> None:
    assert len(LOGS) >= 100 and len({name for name, *_ in LOGS}) == len(LOGS)


@pytest.mark.parametrize(("file", "data"), [log[1:] for log in LOGS], ids=[log[0] for log in LOGS])
def test_a_hostile_log_gives_a_sentence_and_no_file_or_a_safe_world(tmp_path: Path, file: str, data: bytes) -> None:
    log, out, page, begin = tmp_path / file, tmp_path / "world.yaml", tmp_path / "page.html", time.monotonic()
    log.write_bytes(data)
    for command in (
        lambda: with_options(calibrate)(log, out, page=page, quiet=True, least_calls=1),
        lambda: with_options(forge)([], out=out, traces=log, page=page, quiet=True),
    ):
        try:
            command()
        except CostGymError as error:
            assert 10 < len(str(error)) < 700 and "\n" not in str(error)
            assert sorted(path.name for path in tmp_path.iterdir()) == [file]
        else:
            safe(out, page)
    try:
        read_model_calls(log)
    except CostGymError as error:
        assert 10 < len(str(error)) < 700 and "\n" not in str(error)
    assert time.monotonic() - begin < SECONDS


def safe(out: Path, page: Path) -> None:
    """Check the written files, and take them away."""
    for tool in load_scenario(out).build().catalog:
        assert re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", tool.name)
    text = page.read_text(encoding="utf-8")
    assert "<script" not in text and "<img" not in text and "<svg onload" not in text
    out.unlink()
    page.unlink()
