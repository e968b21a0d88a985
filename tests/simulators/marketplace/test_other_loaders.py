"""Readers of AnyToolBench, MGToolBench and ToolDEER files: small files of our own, exact results, and damage."""

from pathlib import Path

import pytest

from costgym.simulators.errors import DataError
from costgym.simulators.marketplace.loaders.documents import Score, read_tool_document
from costgym.simulators.marketplace.loaders.toolbench import load_anytool, load_mgtoolbench
from costgym.simulators.marketplace.loaders.tooldeer import (
    parse_call,
    parse_signature,
    read_conversations,
    read_tools,
    read_unseen,
)
from costgym.simulators.marketplace.schema import check_arguments
from tests.helpers.toolbench_folders import query, write


def test_a_score_of_zero_latency_is_unknown(tmp_path):
    document = {"tool_name": "T", "api_list": [], "score": {"avgLatency": 0, "avgSuccessRate": 150}}
    assert read_tool_document(write(tmp_path / "t.json", document), "C").score == Score(1.0, None, None)


def test_anytool_tasks_get_candidates_of_their_categories_first(tmp_path):
    rows = [
        {"query": f"q{n}", "query_id": str(n), "gt_api_list": [{"category_name": c, "tool_name": f"T{n}", "api_name": "A"}]}
        for n, c in enumerate("XXXYYY")
    ]
    market = load_anytool(write(tmp_path / "anytoolbench.json", rows), candidates=3)
    assert [sorted(task.candidates) for task in market.tasks] == [["a_for_t0", "a_for_t1", "a_for_t2"]] * 3 + [
        ["a_for_t3", "a_for_t4", "a_for_t5"]
    ] * 3
    write(tmp_path / "anytoolbench.json", [{"query": "q", "query_id": "1"}])
    with pytest.raises(DataError, match="record 1: the key 'gt_api_list' is missing"):
        load_anytool(tmp_path / "anytoolbench.json")


def levels(folder: Path) -> Path:
    for ending in ("_ground", "_cut", "_level_cate", "_level_tool", "_level_api"):
        write(folder / f"test_sample/G3{ending}.json", [query(query=f"text of {ending}")])
    return folder


def test_mgtoolbench_tasks_have_five_instructions(tmp_path):
    market = load_mgtoolbench(levels(tmp_path))
    assert market.tasks[0].query == "text of _ground"
    assert dict(market.tasks[0].instructions) == {
        "statement": "text of _cut",
        "category": "text of _level_cate",
        "tool": "text of _level_tool",
        "api": "text of _level_api",
        "hybrid": "text of _ground",
    }


def test_mgtoolbench_names_the_missing_level(tmp_path):
    with pytest.raises(DataError, match=r"expected \*_ground.json"):
        load_mgtoolbench(tmp_path)
    write(levels(tmp_path) / "test_sample/G3_level_tool.json", [query(9)])
    with pytest.raises(DataError, match=r"G3_level_tool\.json: task 1 of G3_ground\.json is not in this file"):
        load_mgtoolbench(tmp_path)
    (tmp_path / "test_sample/G3_level_tool.json").unlink()
    with pytest.raises(DataError, match=r"G3_level_tool\.json: no such file"):
        load_mgtoolbench(tmp_path)


def test_signatures_and_calls_are_parsed_and_never_run():
    assert parse_signature("f(a: str, b: int = 5, c: Optional[float] = None, *, d: bool)") == (
        "f",
        {
            "type": "object",
            "properties": {
                "a": {"type": "string"},
                "b": {"type": "integer", "default": 5},
                "c": {"type": ["number", "null"]},
                "d": {"type": "boolean"},
            },
            "required": ["a", "d"],
        },
    )
    assert parse_signature("broken(")[0] == "broken"
    assert parse_signature("f(a=__import__('os').abort())")[1]["properties"] == {"a": {"type": "string"}}
    assert parse_call("f(a='x', b=[1, 2], c=open('y'), 7)")[0] == "f"
    assert parse_call("f('p', a='x', b=[1, 2], c=open('y'))") == ("f", {"0": "p", "a": "x", "b": [1, 2]})
    assert parse_call("f(" * 5000) == ("f", {})


TOOL = {"api_name": "weather", "description": "Weather.", "api_function": "get_weather(city: str)"}


def chat(text):
    return {"conversations": [{"from": "human", "value": "Rain?"}, {"from": "gpt", "value": text}]}


def pool(end, *lines):
    listing = "\n".join(repr(tool) for tool in lines or (TOOL,))
    return chat(f"#Begin# #SearchAPI# ['weather'], and the introduction and usage of each API is as follows: \n{listing} {end}")


def test_conversations_become_decisions(tmp_path):
    rows = [
        chat("#Begin# Don't #End#"),
        pool("#NoCallAPI# none #End#"),
        pool("#CallAPI# get_weather(city='Oslo') #APIResponse#  #End#"),
    ]
    direct, none, call = read_conversations(write(tmp_path / "valid.json", rows))
    assert (direct.kind, direct.candidates) == ("NoSearch", ())
    assert (none.kind, [tool.name for tool in none.candidates], none.gold) == ("NoCall", ["weather"], "")
    assert (call.kind, call.gold, call.call, call.arguments) == (
        "Call",
        "weather",
        "get_weather(city='Oslo')",
        {"city": "Oslo"},
    )
    assert check_arguments(call.candidates[0], call.arguments) is None


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"conversations": []}, "expected one turn"),
        ({}, "'conversations' is missing"),
        (chat("#SearchAPI# and then nothing"), "without #CallAPI#"),
        (pool("#NoCallAPI# #End#", {"api_name": "x"}), "cannot be read"),
    ],
)
def test_a_damaged_conversation_is_named(tmp_path, row, words):
    path = write(tmp_path / "valid.json", [chat("fine"), row])
    with pytest.raises(DataError, match="record 2") as error:
        read_conversations(path)
    assert words in error.value.problem


def test_deer_tools_and_unseen_samples(tmp_path):
    row = {"api_name": "w", "description_for_human": "Weather.", "api_function": "get_w(city: str)"}
    path = write(tmp_path / "tool.json", [row])
    assert [(tool.name, tool.title) for tool in read_tools(path)] == [("w", "get_w")]
    with pytest.raises(DataError, match="record 2: the tool 'w' appears twice"):
        read_tools(write(path, [row, row]))
    apis = [
        {"name": "a", "description": "", "parameters": "{}"},
        {"name": "b", "parameters": [{"name": "x", "type": "NUMBER"}]},
    ]
    sample = {"query": "q", "api_list": apis, "api_label": ["b"], "is_call": True}
    samples = read_unseen(write(tmp_path / "bench.json", [sample, {**sample, "api_label": ["c"], "is_call": False}]))
    assert [(s.kind, s.gold) for s in samples] == [("Call", "b"), ("NoCall", "")]
    assert samples[0].candidates[1].parameters["properties"] == {"x": {"type": "number", "description": ""}}
    with pytest.raises(DataError, match="no API of the list is among its labels"):
        read_unseen(write(tmp_path / "bench.json", [{**sample, "api_label": ["c"]}]))
