"""Plans: what is one, how long it takes, and how it runs on the clock."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costgym.simulators.errors import InvalidPlan, InvalidProfile
from costgym.simulators.plan import TASK_INPUT, Plan, PlanStep, Signature

IN = [TASK_INPUT]
TYPES = {"denoise": Signature("image", "image"), "caption": Signature("image", "text"), "translate": Signature("text", "text")}
SECONDS = {"a": 4.0, "b": 2.0, "c": 1.0, "d": 8.0}
DIAMOND = Plan.from_list(["a", IN, "b", ["a"], "c", ["a"], "d", ["b", "c"]])


@st.composite
def plans(draw: st.DrawFn) -> tuple[Plan, dict[str, float]]:
    tools = [f"t{number}" for number in range(draw(st.integers(1, 8)))]
    steps = []
    for position, tool in enumerate(tools):
        earlier = [TASK_INPUT, *tools[:position]]
        steps.append(PlanStep(tool, tuple(draw(st.lists(st.sampled_from(earlier), min_size=1, max_size=3)))))
    # Eighths of a second: sums of them are exact, in whatever order.
    times = draw(st.lists(st.integers(0, 800), min_size=len(tools), max_size=len(tools)))
    return Plan(tuple(steps)), {tool: ticks / 8 for tool, ticks in zip(tools, times, strict=True)}


@pytest.mark.parametrize(
    ("items", "reason", "path"),
    [
        ([], "this one is empty", ""),
        (["a"], "odd length: a has no list of dependencies", "item 1"),
        (["a", IN, "b"], "odd length: b has no list of dependencies", "item 3"),
        (["a", []], "no dependencies", "tool 1 (a)"),
        (["a", IN, "a", IN], "a occurs twice, first as tool 1", "tool 2 (a)"),
        (["a", ["a"]], "a depends on itself", "tool 1 (a)"),
        (["a", ["b"], "b", IN], "depends on b, which comes only later (tool 2)", "tool 1 (a)"),
        (["a", ["b"]], "depends on 'b', which is not in the plan", "tool 1 (a)"),
        (["a", "b", IN], "expected a list of dependencies, got 'b'", "item 2"),
        ([IN, "a"], "expected a tool's name", "item 1"),
        (["a", [7]], "expected the names of dependencies, got 7", "item 2"),
        (["", IN], "'' is not the name of a tool", "tool 1 ()"),
        ([TASK_INPUT, ["a"]], "'input_of_query' is not the name of a tool", "tool 1 (input_of_query)"),
        ("a, b", "expected a list", ""),
        (None, "expected a list", ""),
    ],
)
def test_what_is_no_plan_says_why_and_where(items: Any, reason: str, path: str) -> None:
    with pytest.raises(InvalidPlan) as error:
        Plan.from_list(items)
    assert reason in error.value.reason
    assert error.value.location == path


@pytest.mark.parametrize(
    ("items", "given_kinds", "reason", "path"),
    [
        (["paint", IN], ["image"], "unknown tool 'paint'; known: denoise, caption, translate", "tool 1 (paint)"),
        (["translate", IN], ["image"], "takes text, but depends on the task's input image", "tool 1 (translate)"),
        (["denoise", IN], ["text"], "takes image, but depends on the task's input text", "tool 1 (denoise)"),
        (
            ["caption", IN, "denoise", ["caption"]],
            ["image"],
            "takes image, but depends on caption, which gives text",
            "tool 2 (denoise)",
        ),
        (
            ["denoise", IN, "translate", ["denoise"]],
            ["image"],
            "takes text, but depends on denoise, which gives image",
            "tool 2 (translate)",
        ),
    ],
)
def test_tools_read_only_what_they_can(items: Any, given_kinds: list[str], reason: str, path: str) -> None:
    with pytest.raises(InvalidPlan) as error:
        Plan.from_list(items).check_types(TYPES, given_kinds)
    assert error.value.reason == reason
    assert error.value.location == path


def test_a_typed_plan_passes() -> None:
    plan = Plan.from_list(["denoise", IN, "caption", ["denoise"], "translate", ["caption"]])
    assert plan.check_types(TYPES) is plan
    assert plan.chains()["translate"] == ("denoise", "caption", "translate")


def test_names_are_tidied_as_opencatp_writes_them() -> None:
    plan = Plan.from_list(
        ["Image Denoising", ["Input of Query"], "Colorization", [["image denoising"]]], aliases={"colorization": "paint"}
    )
    assert plan.to_list() == ["image_denoising", IN, "paint", ["image_denoising"]]
    assert Plan.from_list(["GetWeather", IN], tidy=False).nodes == ("GetWeather",)


def test_the_diamond_and_its_parts() -> None:
    assert DIAMOND.nodes == ("a", "b", "c", "d")
    assert DIAMOND.edges == ((TASK_INPUT, "a"), ("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"))
    assert DIAMOND.sinks == ("d",)
    assert DIAMOND.execution_time(SECONDS) == 14.0
    assert DIAMOND.sequential_time(SECONDS) == 15.0


def test_a_long_branch_is_never_dropped() -> None:
    plan = Plan.from_list(["a", IN, "b", ["a"], "c", ["b"], "d", ["a", "c"]])
    assert plan.execution_time({"a": 1.0, "b": 10.0, "c": 10.0, "d": 1.0}) == 22.0


def test_a_tool_without_a_time_is_unknown_and_a_wrong_time_refused() -> None:
    with pytest.raises(InvalidPlan, match="no time is given"):
        DIAMOND.execution_time({"a": 1.0})
    for bad in (-1.0, math.nan, math.inf):
        with pytest.raises(InvalidProfile, match="time of a"):
            DIAMOND.execution_time({**SECONDS, "a": bad})


@given(plans())
def test_a_plan_survives_being_written_down(case: tuple[Plan, dict[str, float]]) -> None:
    assert Plan.from_list(case[0].to_list()) == case[0]
