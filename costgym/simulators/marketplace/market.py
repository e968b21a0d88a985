"""A marketplace, which a generator or a loader makes and a world is built from."""

from dataclasses import dataclass

from costgym.simulators.tasks import Answers, TaskSet
from costgym.simulators.tools import Catalog


@dataclass(frozen=True, slots=True)
class Marketplace:
    """Tools, tasks about them, and what the tools answer."""

    catalog: Catalog
    tasks: TaskSet
    answers: Answers
