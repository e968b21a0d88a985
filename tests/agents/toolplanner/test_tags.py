"""What instructions name, what is read of it, and how well."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costgym import ConfigError
from costgym.agents.toolplanner.simulated import named
from costgym.agents.toolplanner.tags import (
    Retriever,
    Tags,
    TagScore,
    gold_tools,
    read_tags,
    tag_score,
    tagged,
    tags_of,
    write_tags,
)
from costgym.agents.toolplanner.tree import REQUIRES, match, names
from costgym.simulators.marketplace.loaders.toolbench import load_mgtoolbench
from costgym.simulators.scenario import load_scenario
from costgym.simulators.tasks import LEVELS, Task
from costgym.simulators.tools import Tool
from costgym.simulators.world import World
from tests.helpers.shared_data import shared


@pytest.fixture(scope="module")
def world() -> World:
    return load_scenario("marketplace").build()


def tasks_of(world: World, count: int = 150) -> Iterator[Task]:
    return (world.tasks[number] for number in world.tasks.numbers("test")[:count])


def tool(name: str, provider: str, category: str = "Data") -> Tool:
    return Tool(f"{name}_for_{provider}".lower().replace(" ", "_"), name, category, provider, name)


def test_the_gold_tools_are_those_that_the_instructions_name(world: World) -> None:
    for task in tasks_of(world):
        gold = gold_tools(task, world.catalog)
        assert len(gold) == len(task.needs)
        for one, need in zip(gold, task.needs, strict=True):
            assert one.name in need.tools
            assert one.provider in task.instructions["tool"] and one.title in task.instructions["api"]
            assert one.category.replace("_", " ") in task.instructions["category"]


def test_recorded_tasks_name_their_relevant_apis_at_every_level() -> None:
    market = load_mgtoolbench(shared("data/toolbench_family/mgtoolbench_CC-BY-NC-SA-4.0"))
    for task in market.tasks:
        assert set(task.instructions) == set(LEVELS)
        gold = gold_tools(task, market.catalog)
        assert {one.name for one in gold} == {need.tools[0] for need in task.needs}
        assert tagged(tags_of(gold), [market.catalog.get(name) for name in task.candidates], 9) == list(gold)


def test_an_instruction_level_holds_to_what_it_names() -> None:
    right, other_api, other_tool = tool("Price", "Shop"), tool("Stock", "Shop"), tool("Price", "Market")
    assert {level: match([other_api], [right], level) for level in LEVELS} == {
        "statement": True, "category": True, "tool": True, "api": False, "hybrid": False,
    }  # fmt: skip
    assert not match([other_tool], [right], "tool") and not match([right, other_api], [right], "api")
    # "call Price" is followed by a call of either Price; "call Price of Shop" is not
    assert match([other_tool], [right], "api") and not match([other_tool], [right], "hybrid")
    assert match([right, right], [right], "hybrid") and match([], [right], "statement")
    assert set(REQUIRES) >= set(LEVELS)


def test_tags_mean_the_tools_of_their_places() -> None:
    offered = [tool("Price", "Shop"), tool("Price", "Market"), tool("Stock", "Shop"), tool("Rain", "Sky", "Weather")]
    tags = Tags(("Data", "Data", "Data"), ("market", "Shop", "Shop"), ("price", "Stock", "Nothing"))
    assert tagged(tags, offered) == [offered[1], offered[2]]
    assert tagged(Tags(apis=("Rain", "rain", "Price")), offered) == [offered[3], offered[0]]
    assert tagged(tags_of(offered), offered, most=3) == offered[:3]
    assert tagged(Tags(), offered) == []


def test_names_stand_in_a_text_as_they_are_written() -> None:
    book, get_book, memes = tool("book_price", "Aa Api"), tool("get_book_price", "Bb Api"), tool("Get All Memes", "Cc")
    assert named([book, get_book], "Please call get_book_price.") == [get_book]
    assert named([book, get_book], "Please use Aa Api.") == [book]
    assert named([book, get_book], "book_price of Bb Api, or get_book_price of Bb Api") == [get_book]
    assert named([memes], "Using get_all_memes, please.") == [memes]
    assert named([book, get_book, memes], "What does it cost?") == []
    word = tool("followers", "Dd Api")
    assert named([word], "Tell me the number of followers of u-123. Thanks!") == []
    for text in ("I run it. Please call followers and likes.", "Using followers APIs.", "it with followers of Dd Api (Social)"):
        assert named([word], text) == [word]


@pytest.mark.parametrize(
    "reply", ["", "no", "[1]", "{", '{"categories": "x"}', '{"apis": {}}', "[" * 50_000, '{"tools": null}']
)
def test_a_reply_without_tags_reads_as_none(reply: str) -> None:
    assert read_tags(reply) is None


def test_what_is_no_name_is_left_out() -> None:
    assert read_tags('Here: {"categories": ["Data", 3], "apis": ["x", null], "mood": 1} ok') == Tags(("Data",), (), ("x",))


@given(st.lists(st.text(), max_size=4), st.lists(st.text(), max_size=4), st.lists(st.text(), max_size=4))
def test_tags_survive_writing_and_reading(categories: list[str], tools: list[str], apis: list[str]) -> None:
    tags = Tags(tuple(categories), tuple(tools), tuple(apis))
    if len(write_tags(tags)) < 20_000:
        assert read_tags(write_tags(tags)) == tags


@given(st.text(max_size=300))
def test_no_reply_breaks_the_reader(reply: str) -> None:
    read_tags(reply)


def test_precision_recall_and_f1_are_over_all_names_together() -> None:
    pairs = [(frozenset("ab"), frozenset("bc")), (frozenset("d"), frozenset("d")), (frozenset(), frozenset("e"))]
    assert tag_score(pairs) == TagScore(2 / 3, 2 / 4, 2 * (2 / 3) * (1 / 2) / (2 / 3 + 1 / 2))
    assert tag_score([]) == TagScore(0.0, 0.0, 0.0)
    assert tag_score([(frozenset("a"), frozenset("b"))]) == TagScore(0.0, 0.0, 0.0)


def test_more_hits_cost_the_retriever_precision_and_bring_recall(world: World) -> None:
    retriever = Retriever(list(world.catalog))
    scores: list[TagScore] = []
    for count in (1, 3, 5):
        retrieved: list[Any] = []
        for task in tasks_of(world):
            top = retriever.top(task.instructions["tool"], count)
            retrieved.append((names(top, "tool"), names(gold_tools(task, world.catalog), "tool")))
        scores.append(tag_score(retrieved))
    assert scores[0].precision > scores[1].precision > scores[2].precision
    assert scores[0].recall < scores[1].recall < scores[2].recall
    assert scores[0].precision > 0.6


def test_the_retriever_needs_something_to_find() -> None:
    with pytest.raises(ConfigError, match="tool"):
        Retriever([])
