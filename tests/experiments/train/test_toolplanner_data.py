"""What ToolPlanner learns from: demonstrations, and pairs of hand-made trees."""

import pytest

from costgym.agents.toolplanner.settings import LearntSettings
from costgym.agents.toolplanner.tags import gold_tools
from costgym.agents.toolplanner.tree import Feedback
from costgym.agents.toolplanner.words import END, FINISH, GIVE_UP, PATH, ROUND, TAGS, Step, written_tool
from costgym.experiments.train.toolplanner.data import (
    Demonstration,
    GrownRound,
    GrownTree,
    asked,
    demonstrations,
    ranked_pairs,
    training_scenario,
)
from costgym.simulators.errors import ConfigError
from tests.helpers.toolplanner_world import TINY, WORLD


def test_of_the_tags_those_that_the_path_needs_are_learnt():
    settings = LearntSettings(**TINY)
    for shown in demonstrations(WORLD, LearntSettings(**{**TINY, "tasks": 4})):
        pieces = [piece for piece in shown.pieces(settings) if piece.text != END]
        start = [piece.text for piece in pieces].index(TAGS) + 1
        listed = pieces[start : start + len(shown.tags)]
        assert tuple(piece.text for piece in listed) == shown.tags
        assert tuple(piece.text for piece in listed if piece.written) == shown.path == shown.tags[: len(shown.path)]


def test_half_of_the_coarsest_instructions_are_learnt_from():
    levels = ("statement", "category", "tool", "api", "hybrid")
    found = list(asked(LearntSettings(), 4))
    assert [level for place, level in found if place == 0] == [level for level in levels if level != "statement"]
    assert [level for place, level in found if place == 1] == [level for level in levels if level != "category"]
    assert list(asked(LearntSettings(levels=("statement",)), 2)) == [(0, "statement"), (1, "statement")]


def test_demonstrations_show_paths_that_answer_and_instructions_that_name_their_tools():
    settings = LearntSettings(tasks=10, worlds=2)
    found = demonstrations(WORLD, settings)
    assert found == demonstrations(WORLD, settings)
    catalog = training_scenario(WORLD, settings).build().catalog
    titles = {f" {tool.title} of {tool.provider}": tool for tool in catalog}
    for each in found:
        assert each.steps[-1] == Step(" finish with the answer")
        called = {step.action for step in each.steps[:-1]}
        assert set(each.path) <= called <= set(titles)
        assert each.tags[: len(each.path)] == each.path and set(each.tags) <= set(titles)
        assert len(each.tags) == settings.candidates
        if "Please call" in each.request:
            assert all(titles[tool].title in each.request for tool in each.path)
        if "Please use tools from" in each.request:
            assert all(titles[tool].category.replace("_", " ") in each.request for tool in each.path)
    assert any(set(each.path) < {step.action for step in each.steps[:-1]} for each in found)


def test_a_budget_leaves_only_the_paths_that_it_pays_for():
    settings = LearntSettings(tasks=10, worlds=2)
    free = demonstrations(WORLD, settings)
    paid = demonstrations(WORLD, settings.model_copy(update={"budget": {"price": 15.0}}))
    assert 0 < len(paid) < len(free)
    assert {each.request for each in paid} < {each.request for each in free}  # the same worlds, with the same luck
    with pytest.raises(ConfigError, match="solves none of the train tasks within the budget"):
        demonstrations(WORLD, settings.model_copy(update={"budget": {"price": 0.01}}))


def test_more_train_tasks_leave_the_test_tasks_as_they_are():
    more = training_scenario(WORLD, LearntSettings(tasks=100)).build().tasks
    less = WORLD.build().tasks
    assert len(more.numbers("train")) == 100
    assert [more[n].query for n in more.numbers("test")] == [less[n].query for n in less.numbers("test")]


def test_rounds_are_ranked_under_the_path_that_the_solution_shows_to_be_right():
    world = WORLD.build()
    task = next(task for task in world.tasks if len(gold_tools(task, world.catalog)) == 2)
    first, second = gold_tools(task, world.catalog)
    third = next(tool for tool in world.catalog if tool.provider not in (first.provider, second.provider))

    def paths(written, called, level="tool", **parts):
        step = GrownRound(action=FINISH, result="", end="answer", passed=True)
        for tool in reversed(called):
            step = GrownRound(action=written_tool(tool), result=" found, 0 left", tool=tool.name, children=(step,))
        tree = GrownTree(
            task=task.id, level=level, request=task.query, tags=None, shown=(first.name, second.name, third.name),
            path=tuple(map(written_tool, written)), gold=(first.name, second.name), roots=(step,),
        )  # fmt: skip
        found = set()
        for pair in ranked_pairs([tree], world.catalog, LearntSettings(**TINY, **parts)):
            texts = [piece.text for piece in pair.before if piece.text != END]
            found.add(tuple(texts[texts.index(PATH) + 1 : texts.index(ROUND)]))
        return found

    one, other, stray = map(written_tool, (first, second, third))
    assert paths([first, third], [second, first]) == {(other, one)}
    assert paths([first, second], [second, first]) == {(other, one)}
    assert paths([first, third], [first]) == set()  # nothing that was played follows
    assert paths([first, third], [second, first], level="statement") == {(other, one)}
    assert paths([first, third], [second, first], following=False) == {(one, stray)}


def test_the_shortest_of_the_solutions_that_follow_is_learnt_from():
    world = WORLD.build()
    task = next(task for task in world.tasks if len(gold_tools(task, world.catalog)) == 2)
    first, second = gold_tools(task, world.catalog)
    end = GrownRound(action=FINISH, result="", end="answer", passed=True)

    def call(tool, left, *children):
        return GrownRound(action=written_tool(tool), result=f" found, {left} left", tool=tool.name, children=children)

    hasty = call(first, 1, call(second, 1, end))
    complete, again = call(second, 0, end), call(first, 1, call(second, 0, end))
    tree = GrownTree(
        task=task.id, level="tool", request=task.query, tags=None, path=None, shown=(first.name, second.name),
        gold=(first.name, second.name), roots=(hasty, call(first, 1, again, complete)),
    )  # fmt: skip
    pairs = ranked_pairs([tree], world.catalog, LearntSettings(**TINY))
    one, other = map(written_tool, (first, second))
    taken = {("".join(piece.text for piece in pair.before).count("\nResult:"), pair.better) for pair in pairs}
    assert taken == {(0, one), (1, other), (2, FINISH)}
    # an answer that comes before all that is named was called, or before anything was found, is always held against
    assert {pair.before for pair in pairs if pair.worse == FINISH} == {pair.before for pair in pairs if pair.better != FINISH}


def test_of_a_demonstration_is_heeded_what_feedback_has_nothing_against():
    def heeded(*steps, **feedback):
        shown = Demonstration("Do it.", ("a", "b", "c"), ("a", "b"), tuple(Step(*step) for step in steps))
        return [step.action for step in shown.heeded(Feedback(**feedback)).steps]

    brought, failed, end = " found, 0 left", " error, 1 left", (FINISH, "")
    assert heeded(("a", brought), ("b", failed), end) == ["a", "b", FINISH]
    assert heeded(("a", failed), ("c", brought), ("b", brought), end) == ["a"]
    # all that is named was called in vain: better another tool than an answer that says nothing
    assert heeded(("a", failed), ("b", failed), ("c", brought), ("d", brought), end) == ["a", "b", "c", "d", FINISH]
    assert heeded(("a", failed), ("b", failed), ("c", brought), end, completion=False) == ["a", "b"]
    assert heeded(("c", brought), end) == []
    assert heeded(("c", brought), end, following=False) == ["c", FINISH]


def test_giving_up_in_a_dead_end_is_better_than_to_end_a_search_that_goes_on_to_a_good_solution():
    world = WORLD.build()
    task = next(task for task in world.tasks if len(gold_tools(task, world.catalog)) == 1)
    [named] = gold_tools(task, world.catalog)
    text = written_tool(named)
    empty = GrownRound(action=FINISH, result="", end="answer", passed=False)
    answer = GrownRound(action=FINISH, result="", end="answer", passed=True)
    cut = GrownRound(action=text, result=" error, 1 left", tool=named.name, end="cut")

    def call(result, *children):
        return GrownRound(action=text, result=result, tool=named.name, children=children)

    def dead_ends(*roots, **parts):
        tree = GrownTree(
            task=task.id, level="tool", request=task.query, tags=None, path=None, shown=(named.name,), gold=(named.name,),
            roots=roots,
        )  # fmt: skip
        pairs = ranked_pairs([tree], world.catalog, LearntSettings(**TINY, **parts))
        found = [pair for pair in pairs if pair.made == "dead_end"]
        assert all((pair.better, pair.worse) == (GIVE_UP, FINISH) for pair in found)
        return ["".join(piece.text for piece in pair.before).count(" error") for pair in found]

    error, brought = " error, 1 left", " found, 0 left"
    dead = call(error, call(error, call(error, empty, cut)))
    alive = call(error, call(error, call(brought, answer)))
    assert dead_ends(dead, alive) == [3]  # once, though two rounds were tried there
    assert dead_ends(alive, dead) == [] == dead_ends(dead)  # nothing good comes after it
    assert dead_ends(call(error, call(error, empty)), alive) == []  # a round before the last may still bring something
    assert dead_ends(call(error, call(brought, call(error, empty))), alive) == []  # an answer would say something
    assert dead_ends(dead, alive, completion=False) == []
