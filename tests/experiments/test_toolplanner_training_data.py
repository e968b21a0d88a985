"""What ToolPlanner learns from: demonstrations, and pairs of hand-made trees."""

from __future__ import annotations

from toolplanner_world import TINY, WORLD

from costgym.agents.toolplanner_settings import LearntSettings
from costgym.agents.toolplanner_tags import gold_tools
from costgym.agents.toolplanner_words import END, FINISH, PATH, TAGS, Step, written_tool
from costgym.experiments.toolplanner_training_data import (
    GrownRound,
    GrownTree,
    asked,
    demonstrations,
    ranked_pairs,
    training_scenario,
)


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


def test_more_train_tasks_leave_the_test_tasks_as_they_are():
    more = training_scenario(WORLD, LearntSettings(tasks=100)).build().tasks
    less = WORLD.build().tasks
    assert len(more.numbers("train")) == 100
    assert [more[n].query for n in more.numbers("test")] == [less[n].query for n in less.numbers("test")]


def test_a_solution_that_follows_shows_which_path_is_right():
    world = WORLD.build()
    task = next(task for task in world.tasks if len(gold_tools(task, world.catalog)) == 2)
    first, second = gold_tools(task, world.catalog)
    third = next(tool for tool in world.catalog if tool.provider not in (first.provider, second.provider))

    def tree(path, called, **changed):
        step = GrownRound(action=FINISH, result="", end="answer", passed=True)
        for tool in reversed(called):
            step = GrownRound(action=written_tool(tool), result=" found, 0 left", tool=tool.name, children=(step,))
        shown = (first.name, second.name, third.name)
        record = {
            "task": task.id, "level": "tool", "request": task.query, "tags": None, "shown": shown,
            "path": path and tuple(map(written_tool, path)), "gold": (first.name, second.name), "roots": (step,),
        }  # fmt: skip
        return GrownTree(**{**record, **changed})

    def paths(grown, **parts):
        pairs = ranked_pairs([grown], world.catalog, LearntSettings(**TINY, **parts))
        return [(pair.better, pair.worse, pair.made) for pair in pairs if pair.part == PATH]

    right, wrong = ((*map(written_tool, tools), "") for tools in ((second, first), (first, third)))
    assert paths(tree([first, third], [second, first])) == [(right, wrong, "")]
    [(better, worse, made)] = paths(tree([first, second], [second, first]))
    assert (better, made) == (right, "other_tool")
    assert written_tool(third) in worse and len(set(worse) & set(right)) == 2
    assert paths(tree([first, third], [first])) == []  # nothing that was played follows
    assert paths(tree([first, third], [second, first], level="statement")) == []  # every path follows
    assert paths(tree(None, [second, first])) == []
    assert paths(tree([first, third], [second, first]), following=False) == []


def test_of_the_solutions_that_follow_the_one_that_finds_most_in_the_fewest_rounds_is_learnt_from():
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
    taken = {("".join(piece.text for piece in pair.before).count("\nResult:"), *pair.better) for pair in pairs}
    assert taken == {(0, one), (1, other), (2, FINISH)}
    # an answer that comes before all that is named was called, or before anything was found, is always held against
    assert {pair.before for pair in pairs if pair.worse == (FINISH,)} == {
        pair.before for pair in pairs if pair.better != (FINISH,)
    }
