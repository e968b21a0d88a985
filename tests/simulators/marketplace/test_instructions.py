"""Tests of the five instruction levels: what each names, what it drops, and how long it is."""

from functools import cache
from statistics import mean

import pytest

from costgym.simulators.marketplace.generator import generate_marketplace
from costgym.simulators.marketplace.instructions import solved_with, topic
from costgym.simulators.marketplace.loaders.toolbench import load_mgtoolbench
from costgym.simulators.marketplace.market import Marketplace
from costgym.simulators.tasks import LEVELS, Need, Task, fact_in, normalise
from costgym.simulators.tools import Tool, ToolProfile
from tests.helpers.shared_data import shared


@cache
def market() -> Marketplace:
    return generate_marketplace(0)


@cache
def tasks() -> list[Task]:
    return [market().tasks[number] for number in range(200)]


def test_a_coarse_instruction_holds_no_wish_and_no_argument() -> None:
    for task in tasks():
        assert tuple(task.instructions) == LEVELS
        for level in ("statement", "category", "tool", "api"):
            text = task.instructions[level]
            assert text.startswith(task.instructions["statement"])
            assert not any(need.wish in text for need in task.needs)
            assert not any(str(value) in text for need in task.needs for value in (need.arguments or {}).values())


def test_a_hybrid_instruction_holds_every_wish_with_its_api_and_provider() -> None:
    for task in tasks():
        for need, name in zip(task.needs, task.named, strict=True):
            tool = market().catalog.get(name)
            assert f"{need.wish} with {tool.title} of {tool.provider}" in task.instructions["hybrid"]


def test_each_level_names_what_it_is_called_after_and_nothing_finer() -> None:
    for task in tasks():
        gold = [market().catalog.get(name) for name in task.named]
        texts = task.instructions
        assert all(tool.category.replace("_", " ") in texts["category"] for tool in gold)
        assert all(tool.provider in texts["tool"] and tool.title in texts["api"] for tool in gold)
        assert not any(tool.provider in texts[level] for tool in gold for level in ("statement", "category", "api"))
        assert not any(fact_in(need.fact, normalise(text)) for need in task.needs for text in texts.values())


def test_instructions_are_as_long_as_the_published_ones() -> None:
    """Mean words of tasks across categories beside those of the published test set: within a quarter of each."""
    published = load_mgtoolbench(shared("data/toolbench_family/mgtoolbench_CC-BY-NC-SA-4.0")).tasks
    ours = [task for task in tasks() if task.group == "G3"]
    for level in LEVELS:
        words, wanted = (mean(len(task.instructions[level].split()) for task in side) for side in (ours, published))
        assert words == pytest.approx(wanted, rel=0.25), level


def test_named_tools_are_of_solved_paths() -> None:
    profiles = [market().catalog.get(name).profile for task in tasks() if task.group != "G1" for name in task.named]
    assert mean(profile.reliability < 0.2 for profile in profiles) < 0.08


def test_a_solved_path_ends_at_the_first_tool_that_works() -> None:
    dead, slow, good = (
        Tool(name, "d", "Data", "P", name, profile=ToolProfile(reliability=chance, latency_s=(seconds,)))
        for name, chance, seconds in (("dead", 0.0, 1.0), ("slow", 1.0, 60.0), ("good", 0.9, 1.0))
    )
    assert solved_with([dead, slow, good], lambda: 0.5) is good
    assert solved_with([dead, good, slow], lambda: 0.95) is good  # none works: the most reliable one


@pytest.mark.parametrize(
    ("wish", "arguments", "expected"),
    [
        ("the fare on route RT-51695K", {"route_id": "RT-51695K"}, "fare"),
        ("the doctor on duty at clinic CL-11213R on 2026-01-02", {"clinic_id": "CL-11213R"}, "doctor on duty"),
        ("the id of the region around Brno", {"city": "Brno"}, "id of the region"),
        ("the area of that region", {"region_id": "RG-1"}, "area"),
        ('the director of "The Blue Hill"', {"movie": "The Blue Hill"}, "director"),
        ("the time", {}, "time"),
    ],
)
def test_a_topic_is_the_wish_without_its_details(wish: str, arguments: dict[str, str], expected: str) -> None:
    assert topic(Need("1", (), arguments, wish=wish)) == expected
