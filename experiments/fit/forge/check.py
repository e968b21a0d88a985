"""Check that a forged world is sound: every task can be composed, asked in words, called and answered."""

from collections.abc import Mapping
from typing import Any

from ....simulators.errors import CostGymError
from ....simulators.forge.queries import problem_of
from ....simulators.marketplace.schema import check_arguments
from ....simulators.scenario import parse_scenario
from ....simulators.tasks import fact_in, normalise

TRIED = 6
"""Tasks of each split that are composed and answered to check a world."""


def problem_of_world(document: Mapping[str, Any], tried: int = TRIED) -> str | None:
    """Say in words what is wrong with a world, of which `tried` tasks of each split are checked; None if nothing is found."""
    try:
        world = parse_scenario(dict(document)).build()
        for split in ("train", "test"):
            for number in world.tasks.numbers(split)[:tried]:
                problem = _problem_of_task(world, world.tasks[number])
                if problem:
                    return f"task {number}: {problem}"
    except CostGymError as error:
        return str(error)
    return None


def _problem_of_task(world: Any, task: Any) -> str | None:
    values = [str(value) for need in task.needs for value in (need.arguments or {}).values()]
    if problem := problem_of(task.query, values):
        return f"its query {problem}"
    for need in task.needs:
        for name in need.tools:
            tool = world.catalog.get(name)
            if problem := check_arguments(tool, need.arguments):
                return f"{name} does not take its arguments: {problem}"
            answer = world.answers.answer(tool, need.arguments, task)
            if answer is None or not fact_in(need.fact, normalise(answer)):
                return f"{name} does not answer with the fact"
        if not set(need.tools) & set(task.candidates):
            return f"no tool on offer gives {need.wish}"
    return None
