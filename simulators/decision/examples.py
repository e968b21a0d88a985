"""Labelled decisions, which deciders are fitted on and scored by."""

from dataclasses import dataclass

from ..tasks import Task
from ..tools import Tool
from ..world import World


@dataclass(frozen=True, slots=True)
class Example:
    """A query with its candidates and what is right about them."""

    task: Task
    candidates: tuple[Tool, ...]

    @property
    def kind(self) -> str:
        """NoSearch, NoCall or Call."""
        return self.task.group

    @property
    def query(self) -> str:
        return self.task.query

    @property
    def gold(self) -> int | None:
        """Index of the right candidate, or None where none fits."""
        right = self.task.needs[0].tools
        return next((index for index, tool in enumerate(self.candidates) if tool.name in right), None)


def examples(world: World, split: str, limit: int | None = None) -> list[Example]:
    """The decisions of a split, in order."""
    numbers = world.tasks.numbers(split)[:limit]
    tasks = [world.tasks[number] for number in numbers]
    return [Example(task, tuple(world.catalog.get(name) for name in task.candidates)) for task in tasks]
