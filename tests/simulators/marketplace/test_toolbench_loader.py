"""Readers of data folders: small folders of our own, exact results, and every kind of damage."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costgym.simulators.errors import DataError, UnknownName
from costgym.simulators.marketplace.loaders.documents import (
    ApiDocument,
    change_name,
    function_name,
    standardize,
    standardize_category,
    unique_names,
)
from costgym.simulators.marketplace.loaders.responses import Mould, is_error_shape
from costgym.simulators.marketplace.loaders.toolbench import find_layout, load_toolbench
from costgym.simulators.marketplace.schema import check_arguments
from costgym.simulators.tasks import fact_in, normalise
from tests.helpers.toolbench_folders import api, query, write


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "solvable_queries/test_instruction/G1_tool.json", [query(n) for n in range(1, 21)])
    write(tmp_path / "solvable_queries/test_query_ids/G1_tool.json", {str(n): 0 for n in range(1, 20)})
    return tmp_path


QUERIES = "solvable_queries/test_instruction/G1_tool.json"


# -- what is read ------------------------------------------------------------------------------------------------------------


def test_a_query_becomes_a_task_with_a_need_for_each_relevant_api(folder):
    market = load_toolbench(folder)
    assert [tool.name for tool in market.catalog] == ["forecast_for_sky_watch", "wind_for_sky_watch"]
    assert len(market.tasks) == 19  # the ids file lists no number 20
    task = market.tasks[0]
    assert (task.id, task.group, task.query) == ("G1_tool/1", "G1_tool", "How is the weather in Oslo?")
    assert task.candidates == ("forecast_for_sky_watch", "wind_for_sky_watch")
    assert [need.tools for need in task.needs] == [("forecast_for_sky_watch",), ("wind_for_sky_watch",)]
    assert [need.arguments for need in task.needs] == [None, None]
    tool = market.catalog.get("forecast_for_sky_watch")
    assert (tool.category, tool.provider, tool.title) == ("Weather", "Sky Watch", "Forecast")
    assert tool.parameters["properties"]["days"] == {"type": "number", "description": "", "default": 3}
    assert tool.parameters["required"] == ["city"]
    assert check_arguments(tool, {"city": "Bergen", "days": 2}) is None
    assert tool.profile.fee in range(1, 11)


def test_an_answer_holds_the_fact_of_its_task_in_the_published_shape(folder):
    market = load_toolbench(folder)
    first, second = market.tasks[0], market.tasks[1]
    wind = market.catalog.get("wind_for_sky_watch")
    answer = json.loads(market.answers.answer(wind, {"city": "Oslo"}, first))
    assert list(answer) == ["wind"]
    assert list(answer["wind"]) == ["speed", "unit"]
    assert str(answer["wind"]["speed"]) == first.needs[1].fact
    assert second.needs[1].fact != first.needs[1].fact
    assert market.answers.answer(wind, {"city": "Oslo"}, first) == market.answers.answer(wind, {"city": "OSLO "}, first)
    assert first.needs[1].fact not in market.answers.irrelevant(wind, {}, first, 0.5)


def test_a_folder_is_found_by_its_shape(tmp_path):
    write(tmp_path / "stable/test_instruction/G1_tool.json", [query()])
    write(tmp_path / "bench/data/instruction/G1_query.json", [query()])
    assert list(find_layout(tmp_path / "stable").queries) == ["G1_tool"]
    assert list(find_layout(tmp_path / "bench").queries) == ["G1_query"]


def test_a_query_keeps_its_split_whatever_else_is_loaded(tmp_path):
    write(tmp_path / "test_instruction/G1_tool.json", [query(n) for n in range(1, 60)])
    write(tmp_path / "test_instruction/G2_category.json", [query(n) for n in range(1, 60)])
    both, one = load_toolbench(tmp_path), load_toolbench(tmp_path, subsets=["G2_category"])
    assert len(both.tasks) == 118
    train = {both.tasks[number].id for number in both.tasks.numbers("train")}
    assert {one.tasks[number].id for number in one.tasks.numbers("train")} == {i for i in train if i.startswith("G2")}
    assert 40 < len(train) < 78


def test_training_queries_are_split_by_the_listed_test_ids(tmp_path):
    write(tmp_path / "instruction/G1_query.json", [query(n) for n in range(1, 9)])
    write(tmp_path / "test_query_ids/G1_tool.json", {"3": 0, "5": 0, "77": 0})
    market = load_toolbench(tmp_path)
    assert [market.tasks[n].id for n in market.tasks.numbers("test")] == ["G1_query/3", "G1_query/5"]


def test_two_queries_fill_two_splits(tmp_path):
    write(tmp_path / "test_instruction/G1_tool.json", [query(1), query(2)])
    market = load_toolbench(tmp_path)
    assert [len(market.tasks.numbers(split)) for split in ("train", "test")] == [1, 1]


def test_telemetry_of_the_tool_folder_becomes_the_profile(folder):
    score = {"avgServiceLevel": 100, "avgLatency": 2000, "avgSuccessRate": 97, "popularityScore": 8.6}
    document = {
        "tool_name": "Sky Watch",
        "tool_description": "Weather of all kinds.",
        "score": score,
        "api_list": [{"name": "Forecast"}],
    }
    write(folder / "toolenv/tools/Weather/sky_watch.json", document)
    market = load_toolbench(folder)
    tool = market.catalog.get("wind_for_sky_watch")
    assert tool.profile.advertised_success == 0.97
    assert tool.profile.advertised_latency_s == 2.0
    assert 1.7 < tool.profile.latency_s[1] < 2.0  # the median lies below the average
    assert tool.profile.popularity == 8.6
    assert "Weather of all kinds." in tool.description


def test_a_tools_example_is_its_answer(folder):
    document = {
        "tool_name": "Sky Watch",
        "score": None,
        "api_list": [{"name": "Forecast", "test_endpoint": {"ok": True, "sky": {"summary": "clear", "cloud": 12}}}],
    }
    write(folder / "toolenv/tools/Weather/sky_watch.json", document)
    market = load_toolbench(folder)
    task = market.tasks[0]
    answer = json.loads(market.answers.answer(market.catalog.get("forecast_for_sky_watch"), {"city": "Oslo"}, task))
    assert answer == {"ok": True, "sky": {"summary": task.needs[0].fact, "cloud": 12}}


def test_example_responses_are_used_and_empty_files_are_not(folder):
    examples = folder / "solvable_queries/toolenv/response_examples"
    write(examples / "Weather/sky_watch.json", {"api_list": [{"name": "Forecast", "schema": {"outlook": "str"}}]})
    write(examples / "Weather/other.json", "")
    market = load_toolbench(folder)
    answer = json.loads(market.answers.answer(market.catalog.get("forecast_for_sky_watch"), {"city": "Oslo"}, market.tasks[0]))
    assert answer == {"outlook": market.tasks[0].needs[0].fact}


def test_code_beside_the_tools_is_never_read(folder):
    write(folder / "toolenv/tools/Weather/sky_watch.json", {"tool_name": "Sky Watch", "api_list": []})
    trap = folder / "toolenv/tools/Weather/sky_watch/api.py"
    write(trap, "raise SystemExit('executed')")
    trap.chmod(0)
    assert len(load_toolbench(folder).tasks) == 19


def test_words_of_a_record_never_become_a_path(tmp_path):
    write(tmp_path / "secret.json", "no json")
    (tmp_path / "data/toolenv/tools").mkdir(parents=True)
    record = query()
    record["api_list"] = [api(category="..", tool="../secret"), api(category="../..", tool="secret", name="Wind")]
    record["relevant APIs"] = [["secret", "Wind"]]
    write(tmp_path / "data/test_instruction/G1_tool.json", [record])
    assert len(load_toolbench(tmp_path / "data").catalog) == 2


def test_the_list_of_unsolvable_queries_is_an_option(folder):
    write(folder / "misc/unsolvable.json", [1, 2, "3"])
    assert len(load_toolbench(folder, anytool_unsolvable=folder / "misc/unsolvable.json").tasks) == 16
    assert len(load_toolbench(folder).tasks) == 19


def test_a_record_without_relevant_apis_wants_all_of_its_list(tmp_path):
    record = {key: value for key, value in query().items() if key != "relevant APIs"}
    write(tmp_path / "test_instruction/G1_tool.json", [record])
    assert len(load_toolbench(tmp_path).tasks[0].needs) == 2


def test_relevant_apis_are_matched_by_their_standard_names(tmp_path):
    write(tmp_path / "test_instruction/G1_tool.json", [query(**{"relevant APIs": [["sky_watch", "FORECAST"]]})])
    assert load_toolbench(tmp_path).tasks[0].needs[0].tools == ("forecast_for_sky_watch",)


def test_the_same_folder_gives_the_same_world_and_another_seed_other_facts(folder):
    first, again, other = load_toolbench(folder), load_toolbench(folder), load_toolbench(folder, seed=1)
    assert list(first.tasks) == list(again.tasks)
    assert list(first.catalog) == list(again.catalog)
    assert first.tasks[0].needs[0].fact != other.tasks[0].needs[0].fact
    assert [tool.profile.fee for tool in first.catalog] == [tool.profile.fee for tool in other.catalog]


# -- names -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "standard"),
    [
        ("Olato Quotes", "olato_quotes"),
        ("Email Verifier/Validator", "email_verifier_validator"),
        ("7timer!", "get_7timer"),
        ("__A--B__", "a_b"),
        ("a^b", "a^b"),
        ("天气 API", "天气_api"),
        ("!!!", ""),
        ("", ""),
    ],
)
def test_names_are_standardised_as_in_the_data_set(name, standard):
    assert standardize(name) == standard


def test_functions_are_named_after_api_and_tool():
    assert change_name("id") == "is_id"
    assert function_name("id", "Sky Watch") == "is_id_for_sky_watch"
    assert standardize_category("Video, Images/Photos") == "Video_Images_Photos"
    long = function_name("x" * 80, "Sky Watch")
    assert long == "x" * 50 + "_for_sky_watch"
    assert len(long) == 64


def test_names_that_collide_are_told_apart_in_sorted_order():
    keys = [("B", "Sky", "Wind"), ("A", "Sky", "Wind"), ("A", "sky", "wind!")]
    assert unique_names(keys) == unique_names(reversed(keys))
    assert unique_names(keys) == {
        ("A", "Sky", "Wind"): "wind_for_sky",
        ("A", "sky", "wind!"): "wind_for_sky_2",
        ("B", "Sky", "Wind"): "wind_for_sky_3",
    }


# -- responses ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("response", "bare"),
    [
        ({"message": "str"}, True),
        ({"statusCode": "int", "message": "str", "error": "str"}, True),
        ({"404": "str"}, True),
        ({"message": {"kind": "str"}}, False),
        ({"status": "str", "rate": "float"}, False),
        ({}, True),
        ("str", True),
        (None, True),
    ],
)
def test_bare_errors_are_no_answers(response, bare):
    assert is_error_shape(response) is bare


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["str", "int", "float", "empty list"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["_list_length", "", "query"]), inner),
    max_leaves=40,
)


@given(response=json_values, typed=st.booleans(), arguments=st.dictionaries(st.text(), json_values))
def test_any_response_can_be_filled_and_holds_its_fact(response, typed, arguments):
    document = ApiDocument(("C", "T", "A"), "", {}, response=response, typed=typed)
    mould = Mould.of(document)
    text = mould.fill(arguments, iter(range(10**6, 10**9, 7919)).__next__, "Amber Orchard and Silent River")
    json.loads(text)
    assert fact_in("Amber Orchard and Silent River", normalise(text))


def test_a_cut_off_template_is_replaced_by_a_made_up_answer():
    document = ApiDocument(("C", "T", "A"), "", {}, response='{"data": {"produ', typed=True)
    assert json.loads(Mould.of(document).fill({"id": "x7"}, lambda: 12345, "F")) == {
        "query": {"id": "x7"},
        "result": {"title": "F", "value": 25.75, "updated": "2027-12-12"},
    }


def test_lists_of_types_and_nothing_are_filled():
    shape = {
        "names": "list of str with length 9",
        "none": "NoneType",
        "rows": "empty list",
        "items": [{"n": "int", "_list_length": 50}],
    }
    filled = json.loads(Mould.of(ApiDocument(("C", "T", "A"), "", {}, response=shape, typed=True)).fill({}, lambda: 7, "F"))
    assert filled == {"names": ["F"], "none": None, "rows": [], "items": [{"n": 7}]}


def test_halves_of_characters_do_not_reach_an_answer():
    document = ApiDocument(("C", "T", "A"), "", {}, response={"a\ud83d": "b\ud83d", "q": "str", "name": "x"}, typed=False)
    Mould.of(document).fill({"q": "\ud83d"}, lambda: 7, "F").encode("utf-8")


# -- damage ------------------------------------------------------------------------------------------------------------------


def without(key):
    return {k: v for k, v in query().items() if k != key}


@pytest.mark.parametrize(
    ("content", "problem_at", "words"),
    [
        ("", "line 1", "empty or cut off"),
        (json.dumps([query()])[:-40], "column", "cut off"),
        ('[{"query": nope}]', "line 1", "not valid JSON"),
        ("[" * 100_000, "", "at most 100 levels"),
        ('{"a": 1}', "", "expected a list of records"),
        ("[1]", "record 1", "expected an object"),
        ([query(1), without("query")], "record 2", "'query' is missing"),
        ([without("query_id")], "record 1", "'query_id' is missing"),
        ([without("api_list")], "record 1", "'api_list' is missing"),
        ([query(query=5)], "record 1, query", "expected a text, got a whole number (5)"),
        ([query(query="  ")], "record 1, query", "empty"),
        ([query(query_id=[1])], "record 1, query_id", "got a list"),
        ([query(query_id=True)], "record 1, query_id", "got true or false"),
        ([query(api_list={})], "record 1, api_list", "expected a list"),
        ([query(api_list=[])], "record 1, api_list", "empty"),
        ([query(api_list=["x"])], "record 1, api_list[0]", "expected an object"),
        ([query(api_list=[{"tool_name": "T", "api_name": "A"}])], "record 1, api_list[0]", "'category_name' is missing"),
        ([query(api_list=[api(required_parameters="city")])], "api_list[0], required_parameters", "expected a list"),
        ([query(api_list=[api(required_parameters=[{"type": "STRING"}])])], "required_parameters[0]", "'name' is missing"),
        ([query(**{"relevant APIs": [["Nobody", "Knows"]]})], "record 1, relevant APIs", "nobody / knows is not in"),
        ([query(**{"relevant APIs": [["One"]]})], "record 1, relevant APIs[0]", "pair of names"),
        ([query(**{"relevant APIs": []})], "record 1, relevant APIs", "no relevant API"),
        ([query(4), query(4)], "record 2", "appears twice"),
        ("[]", "", "no queries are left"),
    ],
)
def test_a_damaged_query_file_is_named_with_the_place(folder, content, problem_at, words):
    path = write(folder / QUERIES, content)
    (folder / "solvable_queries/test_query_ids/G1_tool.json").unlink()
    with pytest.raises(DataError) as error:
        load_toolbench(folder)
    assert error.value.path == str(folder if words.startswith("no queries") else path)
    assert problem_at in error.value.location
    assert words in error.value.problem


def test_bytes_that_are_no_text_are_named(folder):
    (folder / QUERIES).write_bytes(b'[{"query": "\xff"}]')
    with pytest.raises(DataError, match=r"G1_tool\.json, byte 12: is not UTF-8"):
        load_toolbench(folder)


def test_a_huge_number_is_named(folder):
    write(folder / QUERIES, '[{"query": "q", "query_id": ' + "9" * 5000 + "}]")
    with pytest.raises(DataError, match=r"G1_tool\.json"):
        load_toolbench(folder)


def test_halves_of_characters_are_replaced(tmp_path):
    write(tmp_path / "test_instruction/G1_tool.json", json.dumps([query(query="snow \ud83d man")]))
    load_toolbench(tmp_path).tasks[0].query.encode("utf-8")


def test_missing_folders_and_files_are_named(folder, tmp_path):
    with pytest.raises(DataError, match=r"nowhere: data folder: no such folder"):
        load_toolbench(tmp_path / "nowhere")
    with pytest.raises(DataError, match="is a file, not a folder"):
        load_toolbench(folder / QUERIES)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds no queries; expected StableToolBench's solvable_queries/test_instruction"):
        load_toolbench(tmp_path / "empty")
    with pytest.raises(DataError, match="tool documents: no such folder"):
        load_toolbench(folder, tools=tmp_path / "nowhere")
    with pytest.raises(DataError, match="no such file"):
        load_toolbench(folder, anytool_unsolvable=tmp_path / "ids.json")
    with pytest.raises(UnknownName, match="unknown subset 'G1_tol'; nearest: G1_tool"):
        load_toolbench(folder, subsets=["G1_tol"])


@pytest.mark.parametrize(
    ("document", "problem_at", "words"),
    [
        ('{"tool_name": "Sky', "column", "cut off"),
        ({"api_list": []}, "", "'tool_name' is missing"),
        ({"tool_name": "Sky Watch"}, "", "'api_list' is missing"),
        ({"tool_name": "Sky Watch", "api_list": [{}]}, "api 1", "'name' is missing"),
        ({"tool_name": "Sky Watch", "api_list": [], "score": 5}, "score", "expected an object"),
        (
            {"tool_name": "Sky Watch", "api_list": [], "score": {"avgLatency": "fast"}},
            "score, avgLatency",
            "expected a whole number",
        ),
        ('{"tool_name": "Sky Watch", "api_list": [], "score": {"avgLatency": NaN}}', "score, avgLatency", "finite"),
    ],
)
def test_a_damaged_tool_document_is_named(folder, document, problem_at, words):
    path = write(folder / "toolenv/tools/Weather/sky_watch.json", document)
    with pytest.raises(DataError) as error:
        load_toolbench(folder)
    assert error.value.path == str(path)
    assert problem_at in error.value.location
    assert words in error.value.problem


def test_the_ids_file_may_be_a_list_but_nothing_else(folder):
    ids = folder / "solvable_queries/test_query_ids/G1_tool.json"
    write(ids, [1, 2])
    assert len(load_toolbench(folder).tasks) == 2
    write(ids, "5")
    with pytest.raises(DataError, match="expected a list of query ids"):
        load_toolbench(folder)
    write(ids, [1, None])
    with pytest.raises(DataError, match=r"record 2: expected a query id, got null"):
        load_toolbench(folder)


@given(records=st.lists(json_values), change=st.dictionaries(st.sampled_from(list(query())), json_values, max_size=2))
def test_whatever_a_file_holds_it_is_read_or_refused(tmp_path_factory, records, change):
    root = tmp_path_factory.getbasetemp() / "any"
    write(root / "test_instruction/G1_tool.json", json.dumps([query(1) | change, *records]))
    try:
        market = load_toolbench(root)
    except DataError as error:
        assert "any" in error.path
    else:
        assert all(need.fact for task in market.tasks for need in task.needs)
