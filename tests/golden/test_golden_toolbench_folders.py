"""The loaders on samples of the published data sets."""

import json
from collections import Counter

import pytest

from costgym.simulators.marketplace.loaders.documents import read_tool_folder, standardize
from costgym.simulators.marketplace.loaders.toolbench import find_layout, load_anytool, load_mgtoolbench, load_toolbench
from costgym.simulators.marketplace.loaders.tooldeer import read_conversations, read_tools, read_unseen
from costgym.simulators.marketplace.schema import check_arguments
from costgym.simulators.tasks import LEVELS, fact_in, normalise
from tests.helpers.shared_data import shared, shared_json

FAMILY = "data/toolbench_family"
STABLE = {
    "G1_category": 20, "G1_instruction": 40, "G1_tool": 20, "G2_category": 40, "G2_instruction": 40, "G3_instruction": 36,
}  # fmt: skip


def assert_solvable(market):
    for task in market.tasks:
        facts = [need.fact for need in task.needs]
        assert len(set(facts)) == len(facts)
        for need in task.needs:
            tool = market.catalog.get(need.tools[0])
            assert tool.name in task.candidates
            assert normalise(need.fact) not in normalise(task.query)
            answer = market.answers.answer(tool, {"q": "x"}, task)
            json.loads(answer)
            assert fact_in(need.fact, normalise(answer[:1024]))  # what survives the usual truncation of observations
            assert sum(fact_in(fact, normalise(answer)) for fact in facts) == 1


def test_stabletoolbench_queries():
    market = load_toolbench(shared(f"{FAMILY}/stabletoolbench"))
    assert Counter(task.group for task in market.tasks) == STABLE
    assert len(market.catalog) == 826
    assert {split: len(market.tasks.numbers(split)) for split in market.tasks.splits} == {"train": 104, "test": 92}
    assert_solvable(market)


def test_needs_are_the_relevant_apis():
    folder = shared(f"{FAMILY}/stabletoolbench")
    market = load_toolbench(folder)
    tasks = {task.id: task for task in market.tasks}
    for subset in STABLE:
        for record in shared_json(f"{FAMILY}/stabletoolbench/solvable_queries/test_instruction/{subset}.json"):
            task = tasks[f"{subset}/{record['query_id']}"]
            assert task.query == record["query"]
            served = [
                (market.catalog.get(need.tools[0]).provider, market.catalog.get(need.tools[0]).title) for need in task.needs
            ]
            assert served == [tuple(pair) for pair in record["relevant APIs"]]
            assert len(task.candidates) == len(record["api_list"])
            for name, api in zip(task.candidates, record["api_list"], strict=True):
                properties = market.catalog.get(name).parameters["properties"]
                listed = {p["name"] for p in api["required_parameters"] + api["optional_parameters"]}
                assert set(properties) == listed


def test_documented_defaults_fit_their_own_schema():
    market = load_toolbench(shared(f"{FAMILY}/stabletoolbench"))
    filled = 0
    for tool in market.catalog:
        examples = {
            name: schema.get("default", (schema.get("examples") or [None])[0])
            for name, schema in tool.parameters["properties"].items()
        }
        arguments = {name: value for name, value in examples.items() if value is not None}
        if set(tool.parameters["required"]) <= set(arguments):
            filled += 1
            assert check_arguments(tool, arguments) is None, tool.name
    assert filled > 500


def test_telemetry_and_the_filter_of_unsolvable_queries():
    folder, tools = shared(f"{FAMILY}/stabletoolbench"), shared(f"{FAMILY}/derived_toolenv/tools")
    market = load_toolbench(folder, tools=tools, anytool_unsolvable=shared(f"{FAMILY}/anytool/unsolvable.json"))
    assert len(market.tasks) == 106
    whole = load_toolbench(folder, tools=tools)
    scores = {(tool.category, tool.name): tool.score for tool in read_tool_folder(tools) if tool.score is not None}
    known = [tool for tool in whole.catalog if (tool.category, tool.provider) in scores]
    assert len(known) == 136
    for tool in known:
        score = scores[tool.category, tool.provider]
        assert tool.profile.advertised_success == pytest.approx(score.success, abs=6e-4)
        if score.latency_s is not None:
            assert tool.profile.advertised_latency_s == pytest.approx(score.latency_s, abs=6e-4)
    assert_solvable(market)


def test_one_subset_is_read_alone():
    market = load_toolbench(shared(f"{FAMILY}/stabletoolbench"), subsets=["G3_instruction"])
    assert len(market.tasks) == 36
    assert {task.group for task in market.tasks} == {"G3_instruction"}


def test_toolbench_instructions_with_tools_and_example_responses():
    folder = shared(f"{FAMILY}/toolbench")
    assert list(find_layout(folder).queries) == ["G1_query", "G2_query", "G3_query"]
    market = load_toolbench(folder)
    assert Counter(task.group for task in market.tasks) == {"G1_query": 5, "G2_query": 3, "G3_query": 2}
    assert_solvable(market)
    quotes = load_toolbench(folder, subsets=["inference_query_demo"])
    assert [tool.name for tool in quotes.catalog] == [
        "love_quote_for_olato_quotes", "motivation_quote_for_olato_quotes", "success_quote_for_olato_quotes",
    ]  # fmt: skip
    task = quotes.tasks[0]
    assert json.loads(quotes.answers.answer(quotes.catalog[0], {}, task)) == {"quote": task.needs[0].fact}
    assert {tool.profile.popularity for tool in quotes.catalog} == {6.9}
    assert {tool.profile.advertised_latency_s for tool in quotes.catalog} == {0.689}


def test_tool_folders():
    derived = read_tool_folder(shared(f"{FAMILY}/derived_toolenv/tools"))
    assert (len(derived), sum(len(tool.apis) for tool in derived)) == (120, 520)
    assert sum(tool.score is None for tool in derived) == 4
    stems = {path.stem for path in shared(f"{FAMILY}/derived_toolenv/tools").glob("*/*.json")}
    assert {standardize(tool.name) for tool in derived} == stems


def test_anytoolbench():
    market = load_anytool(shared(f"{FAMILY}/anytool/anytoolbench.json"), tools=shared(f"{FAMILY}/derived_toolenv/tools"))
    assert Counter(len(task.needs) for task in market.tasks) == {1: 18, 2: 33, 3: 18, 5: 1}
    assert {len(task.candidates) for task in market.tasks} == {16}
    assert len(market.catalog) == 606
    assert_solvable(market)


def test_mgtoolbench():
    market = load_mgtoolbench(shared(f"{FAMILY}/mgtoolbench_CC-BY-NC-SA-4.0"))
    assert (len(market.tasks), len(market.catalog)) == (40, 199)
    assert all(set(task.instructions) == set(LEVELS) for task in market.tasks)
    assert all(task.instructions["hybrid"].startswith(task.instructions["statement"][:20]) for task in market.tasks)
    assert_solvable(market)


def test_tooldeer():
    tools = read_tools(shared(f"{FAMILY}/tooldeer/tool.json"))
    assert len(tools) == 110
    valid = read_conversations(shared(f"{FAMILY}/tooldeer/valid.json"))
    assert Counter(sample.kind for sample in valid) == {"NoSearch": 50, "NoCall": 50, "Call": 50}
    test = read_conversations(shared(f"{FAMILY}/tooldeer/test.json"))
    assert Counter(sample.kind for sample in test) == {"NoCall": 40, "Call": 40}
    for sample in valid + test:
        assert len(sample.candidates) == (0 if sample.kind == "NoSearch" else 5)
        if sample.kind == "Call":
            assert sample.gold in {tool.name for tool in sample.candidates}
    bench, corpus = (read_unseen(shared(f"{FAMILY}/tooldeer/{name}.json")) for name in ("tool_bench", "tool_corpus"))
    assert Counter(sample.kind for sample in bench) == {"Call": 17, "NoCall": 13}
    assert Counter(sample.kind for sample in corpus) == {"Call": 21, "NoCall": 9}
