"""What ToolPlanner learns from: demonstrations, and pairs of hand-made trees."""

import pytest

from costgym.agents.toolplanner.settings import LearntSettings
from costgym.agents.toolplanner.tags import gold_tools
from costgym.agents.toolplanner.tree import Feedback
from costgym.agents.toolplanner.words import END, FINISH, GIVE_UP, TAGS, Step, written_tool
from costgym.experiments.train.toolplanner.data import (
    Demonstration,
    GrownRound,
    GrownTree,
    demonstrations,
    ranked_pairs,
    tasks_and_levels,
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
    pairs = list(tasks_and_levels(LearntSettings(), 4))
    assert [level for index, level in pairs if index == 0] == [level for level in levels if level != "statement"]
    assert [level for index, level in pairs if index == 1] == [level for level in levels if level != "category"]
    assert list(tasks_and_levels(LearntSettings(levels=("statement",)), 2)) == [(0, "statement"), (1, "statement")]


def test_demonstrations_show_paths_that_answer_and_instructions_that_name_their_tools():
    settings = LearntSettings(tasks=10, worlds=2)
    examples = demonstrations(WORLD, settings)
    assert examples == demonstrations(WORLD, settings)
    catalog = training_scenario(WORLD, settings).build().catalog
    titles = {f" {tool.title} of {tool.provider}": tool for tool in catalog}
    for example in examples:
        assert example.steps[-1] == Step(" finish with the answer")
        called = {step.action for step in example.steps[:-1]}
        assert set(example.path) <= called <= set(titles)
        assert example.tags[: len(example.path)] == example.path and set(example.tags) <= set(titles)
        assert len(example.tags) == settings.candidates
        if "Please call" in example.request:
            assert all(titles[tool].title in example.request for tool in example.path)
        if "Please use tools from" in example.request:
            assert all(titles[tool].category.replace("_", " ") in example.request for tool in example.path)
    assert any(set(example.path) < {step.action for step in example.steps[:-1]} for example in examples)


def test_a_budget_leaves_only_the_paths_that_it_pays_for():
    settings = LearntSettings(tasks=10, worlds=2)
    free = demonstrations(WORLD, settings)
    paid = demonstrations(WORLD, settings.model_copy(update={"budget": {"price": 15.0}}))
    assert 0 < len(paid) < len(free)
    assert {example.request for example in paid} < {example.request for example in free}  # the same worlds, with the same luck
    with pytest.raises(ConfigError, match="solves none of the train tasks within the budget"):
        demonstrations(WORLD, settings.model_copy(update={"budget": {"price": 0.01}}))


def test_more_train_tasks_leave_the_test_tasks_as_they_are():
    more = training_scenario(WORLD, LearntSettings(tasks=100)).build().tasks
    less = WORLD.build().tasks
    assert len(more.numbers("train")) == 100
    assert [more[n].query for n in more.numbers("test")] == [less[n].query for n in less.numbers("test")]


@pytest.mark.parametrize(("completion", "ending"), [(True, FINISH), (True, GIVE_UP), (False, GIVE_UP)])
def test_rounds_of_reward_1_alone_are_better_ones_and_giving_up_never_is(completion, ending):
    world = WORLD.build()
    task = next(task for task in world.tasks if len(gold_tools(task, world.catalog)) == 2)
    first, second = gold_tools(task, world.catalog)

    def call(tool, *children):
        return GrownRound(action=written_tool(tool), result=" found, 0 left", tool=tool.name, children=children)

    end = GrownRound(action=ending, result="", end="answer" if ending == FINISH else "give_up", passed=ending == FINISH)
    hasty = GrownRound(action=FINISH, result="", end="answer", passed=True)
    tree = GrownTree(
        task=task.id, level="tool", request=task.query, tags=None, path=None, shown=(first.name, second.name),
        gold=(first.name, second.name), roots=(call(first, hasty, call(second, end)), call(second, hasty)),
    )  # fmt: skip
    settings = LearntSettings(**TINY, completion=completion)
    pairs = ranked_pairs([tree], world.catalog, settings)
    one, other = map(written_tool, (first, second))
    grown = [(pair.better, pair.worse) for pair in pairs if not pair.made]
    # without the answer nothing has reward 1, unless completion does not count
    assert grown == ([(one, other), (other, FINISH)] if ending == FINISH or not completion else [])
    assert [(pair.better, pair.worse) for pair in pairs if pair.made] == ([(FINISH, GIVE_UP)] if ending == FINISH else [])


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
