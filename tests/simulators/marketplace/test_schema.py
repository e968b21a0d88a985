"""The check of arguments: what it says, and that it never raises."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costgym.simulators.marketplace.schema import check_arguments, check_value
from costgym.simulators.tools import Tool

TOOL = Tool(
    name="forecast",
    description="",
    category="Weather",
    provider="Sky",
    parameters={
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer", "minimum": 1, "maximum": 14},
            "unit": {"type": "string", "enum": ["metric", "imperial"]},
            "factor": {"type": "number"},
            "hourly": {"type": "boolean"},
            "fields": {"type": "array", "items": {"type": "string"}},
            "place": {"type": "object", "properties": {"lat": {"type": "number"}}, "required": ["lat"]},
        },
        "required": ["city"],
        "additionalProperties": False,
    },
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(list(TOOL.parameters["properties"])), inner),
)


@pytest.mark.parametrize(
    "arguments",
    [
        {"city": "Oslo"},
        {"city": "Oslo", "days": 3, "unit": "metric", "factor": 1.5, "hourly": False, "fields": ["a"], "place": {"lat": 1}},
        {"city": "Oslo", "days": 3.0, "factor": 2},
    ],
)
def test_good_arguments_pass(arguments):
    assert check_arguments(TOOL, arguments) is None


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (None, "arguments: expected an object, got null"),
        ([1], "arguments: expected an object, got a list"),
        ({}, "city: required, but missing"),
        ({"city": 5}, "city: expected a text, got 5"),
        ({"city": "Oslo", "days": True}, "days: expected a whole number, got true"),
        ({"city": "Oslo", "days": 1.5}, "days: expected a whole number, got 1.5"),
        ({"city": "Oslo", "days": 0}, "days: expected at least 1, got 0"),
        ({"city": "Oslo", "days": 15}, "days: expected at most 14, got 15"),
        ({"city": "Oslo", "days": 10**5000}, "days: expected at most 14, got a huge number"),
        ({"city": "Oslo", "unit": "kelvin"}, "unit: expected one of 'metric', 'imperial', got 'kelvin'"),
        ({"city": "Oslo", "factor": float("nan")}, "factor: expected a number, got nan"),
        ({"city": "Oslo", "hourly": "yes"}, "hourly: expected true or false, got 'yes'"),
        ({"city": "Oslo", "fields": ["a", 2]}, "fields[1]: expected a text, got 2"),
        ({"city": "Oslo", "place": {}}, "place.lat: required, but missing"),
        (
            {"city": "Oslo", "town": 1},
            "'town': unknown argument; known: city, days, unit, factor, hourly, fields, place",
        ),
    ],
)
def test_bad_arguments_are_told_in_words(arguments, problem):
    assert check_arguments(TOOL, arguments) == problem


@given(arguments=JSON)
def test_no_json_value_makes_it_raise(arguments):
    problem = check_arguments(TOOL, arguments)
    assert problem is None or isinstance(problem, str)


def test_depth_and_size_do_not_matter():
    deep: list = []
    for _ in range(200_000):
        deep = [deep]
    assert check_arguments(TOOL, {"city": deep}) == "city: expected a text, got a list"
    assert check_arguments(TOOL, {"city": "Oslo", "unit": deep}) == "unit: expected a text, got a list"
    assert check_arguments(TOOL, deep) == "arguments: expected an object, got a list"
    assert len(check_arguments(TOOL, {"city": "Oslo", "x" * 10**6: 1}) or "") < 200
    assert check_value(deep, {"enum": ["a"]}, "v") == "v: expected one of 'a', got a list"


def test_several_types_may_be_allowed():
    schema = {"type": ["integer", "null"]}
    assert check_value(None, schema, "v") is None
    assert check_value("x", schema, "v") == "v: expected a whole number or null, got 'x'"


def test_a_truth_value_is_not_the_number_one():
    assert check_value(True, {"enum": [1]}, "v") == "v: expected one of 1, got true"
