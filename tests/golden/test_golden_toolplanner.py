"""ToolPlanner's pass, match and reward against the published evaluation, case by case."""

from __future__ import annotations

import pytest
from shared_data import shared_lines

from costgym.agents.toolplanner import MATCH_LEVELS, Api, match, passed, solution_reward, subset

ROWS = "data/algorithms/toolplanner_reward.jsonl"


def known_functions(rows):
    """Functions by the names that models call; the first category that lists a tool is its category."""
    category, found = {}, {}
    for row in rows:
        for gold in row["gold"]:
            category.setdefault(gold["tool"], gold["category"])
            api = Api(category[gold["tool"]], gold["tool"], gold["api"])
            found[api.function] = api
    return category, found


def read(name, category, functions):
    if name in functions:
        return functions[name]
    tool = next((tool for tool in category if name.endswith(f"_for_{tool}"[-64:])), None)
    return None if tool is None else Api(category[tool], tool, name.removesuffix(f"_for_{tool}"))


def test_every_solution_is_graded_as_published():
    rows = shared_lines(ROWS)
    category, functions = known_functions(rows)
    compared = {"pass": 0, "match": 206}
    for row in rows:
        last = row["steps"][-1]
        assert passed(last["function"], last["arguments"]) == row["pass"], row["id"]
        compared["pass"] += 1
        names = [
            step["function"]
            for step in row["steps"]
            if step["function"] not in ("Finish", "invalid_hallucination_function_name")
        ]
        called = [read(name, category, functions) for name in names]
        if None in called:
            continue  # a function of a tool that no case names as gold: its category is not in the file
        for level in MATCH_LEVELS:
            assert match(called, row["gold"], level) == row[f"match_{level}"], (row["id"], level)
            assert solution_reward(row["pass"], row[f"match_{level}"]) == row["reward"][level]
        compared["match"] += 1
    assert compared == {"pass": 210, "match": 206}


@pytest.mark.parametrize("works,matched,reward", [(1, 1, 1), (0, 1, -1), (1, 0, -2), (0, 0, -3)])
def test_the_four_rewards(works, matched, reward):
    assert solution_reward(bool(works), bool(matched)) == reward


def test_names_are_taken_in_any_form():
    gold = [{"category": "c", "tool": "t", "api": "a"}]
    assert match([Api("c", "t", "a"), ("c", "t", "a")], gold, "api")
    assert match(["t", "t"], gold, "tool") and not match([], gold, "category")
    assert subset([("c", "t", "a")], [*gold, ("d", "u", "b")], "api")
