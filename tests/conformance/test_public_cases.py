"""Inputs in the shapes that people reported in public, each with the value that is right: `public_cases.jsonl`.

The name of a case says the thread, fixture or convention whose shape it has; names and values in it are made here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from costgym.agents.models.base import Function
from costgym.agents.models.call_forms import read_calls
from costgym.agents.models.streams import assemble
from costgym.agents.models.usage import read_server_usage
from costgym.experiments.fit.forge.forge import forge, problem_of_world
from costgym.experiments.play.call_logs.log import read_log
from costgym.simulators.calls import Usage
from costgym.simulators.errors import CostGymError
from costgym.simulators.forge.compose import api_document, world_document
from costgym.simulators.forge.graph import graph_of
from costgym.simulators.forge.readers.reading import read_document
from tests.helpers.specifications import content

LINES = Path(__file__).with_name("public_cases.jsonl").read_text(encoding="utf-8").splitlines()
CASES = [json.loads(line) for line in LINES]
TAGS = Function("Apply tags", "", {"type": "object", "properties": {"tags": {"type": "array"}}})
MAP = Function("map", "", {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}})
NOW = Function("now", "", {"type": "object", "properties": {}})


def test_sixty_cases_name_the_thread_whose_input_they_have() -> None:
    assert len({case["name"] for case in CASES if "#" in case["name"]}) >= 60


def of_kind(kind: str) -> Any:
    """The cases of a kind as parameters of a test."""
    chosen = [case for case in CASES if case["kind"] == kind]
    return pytest.mark.parametrize("case", chosen, ids=[case["name"] for case in chosen])


@of_kind("document")
def test_a_document_is_used_as_its_author_means_it(case: dict[str, Any]) -> None:
    data = case["input"].encode() if isinstance(case["input"], str) else content(case["input"])
    graph = graph_of(read_document("case.json", data))  # type: ignore[arg-type]
    assert [[draft.role, draft.noun] for draft in graph.capabilities] == case["expected"], dict(graph.unused)
    made = world_document([api_document(graph)], "case", 0)
    assert made is not None
    assert problem_of_world(made, 20) is None


@of_kind("refused")
def test_a_document_of_which_nothing_can_be_asked_is_refused_with_the_reason(case: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "case.json").write_text(json.dumps(case["input"]))
    with pytest.raises(CostGymError, match=case["expected"]):
        forge([str(tmp_path / "case.json")], "case", 0)


@of_kind("reply")
def test_a_call_in_a_reply_is_read(case: dict[str, Any]) -> None:
    calls = read_calls(case["input"], lenient=True, functions=(TAGS, MAP, NOW), known_only=True)[1]
    assert [[call.name, call.read()] for call in calls] == case["expected"]


@of_kind("usage")
def test_the_classes_of_tokens_are_a_vendors(case: dict[str, Any]) -> None:
    assert read_server_usage({"usage": case["input"]}) == Usage(**case["expected"])


@of_kind("stream")
def test_a_stream_is_the_reply_that_it_is_in_pieces(case: dict[str, Any]) -> None:
    message = assemble("\n\n".join(case["input"]).encode())["choices"][0]["message"]
    assert [[call["function"]["name"], call["function"]["arguments"]] for call in message["tool_calls"]] == case["expected"]


@of_kind("log")
def test_a_call_of_a_log_has_its_tool_its_end_and_what_went_in_and_out(tmp_path: Path, case: dict[str, Any]) -> None:
    lines = case["input"] if isinstance(case["input"], list) else [case["input"]]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    log = read_log(tmp_path / "log.jsonl")
    (call,) = log.calls
    label = call.status.label if call.status.label in ("ok", "timeout", "rate_limited") else "error"
    read = [call.tool, label, call.latency_s, call.arguments, call.result, *log.queries.values()]
    assert read[: len(case["expected"])] == case["expected"]
