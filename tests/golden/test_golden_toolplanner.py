"""Pass, match and reward of solutions, as the published evaluation gives them."""

import json
from typing import Any

import pytest

from costgym.agents.toolplanner.tree import match, passed, solution_reward
from tests.helpers.shared_data import shared, shared_lines

VOCABULARY = "data/toolbench_family/mgtoolbench_CC-BY-NC-SA-4.0/retrieval/G3_category"


@pytest.fixture(scope="module")
def functions() -> dict[str, dict[str, str]]:
    """What each function of the vocabulary is: category, tool and API. A tool counts to the first category that lists it."""
    folder = shared(VOCABULARY)
    categories: dict[str, str] = {}
    for line in (folder / "toolNameStand.txt").read_text(encoding="utf-8").splitlines():
        category, _, tools = line.partition("\t")
        for tool in tools.rstrip(".").split(", "):
            categories.setdefault(tool, category)
    known: dict[str, dict[str, str]] = {}
    for line in (folder / "APINameStand.txt").read_text(encoding="utf-8").splitlines():
        tool, _, apis = line.partition("\t")
        for api in apis.rstrip(".").split(", "):
            function = f"{standard(api)}_for_{standard(tool)}"[-64:]
            known[function] = {"category": categories.get(tool, ""), "tool": standard(tool), "api": api}
    return known


def standard(name: str) -> str:
    """Names do not begin with a digit."""
    return f"get_{name}" if name[:1].isdigit() else name


@pytest.fixture(scope="module")
def cases() -> list[dict[str, Any]]:
    return shared_lines("data/algorithms/toolplanner_reward.jsonl")


def answer_of(case: dict[str, Any]) -> str | None:
    last = case["steps"][-1]
    if last["function"] != "Finish":
        return None
    arguments = json.loads(last["arguments"])
    return str(arguments.get("final_answer", "")) if arguments.get("return_type") == "give_answer" else None


def test_a_solution_passes_as_published_but_for_empty_answers(cases: list[dict[str, Any]]) -> None:
    """An empty answer passes there; it is no meaningful answer."""
    empty = [case for case in cases if answer_of(case) == ""]
    assert len(cases) == 210 and len(empty) == 14
    for case in cases:
        if case not in empty:
            assert passed(answer_of(case)) == case["pass"], case["id"]


def test_a_solution_matches_as_published(cases: list[dict[str, Any]], functions: dict[str, dict[str, str]]) -> None:
    for case in cases:
        calls = [step["function"] for step in case["steps"] if step["function"] != "Finish"]
        called = [functions[name] for name in calls if name in functions]
        for level in ("category", "tool", "api"):
            assert match(called, case["gold"], level) == case[f"match_{level}"], (case["id"], level)


def test_the_reward_is_the_papers_table(cases: list[dict[str, Any]]) -> None:
    for case in cases:
        for level, reward in case["reward"].items():
            assert solution_reward(case["pass"], case[f"match_{level}"]) == reward
