"""A marketplace: what a generator or a loader hands to the world."""

from __future__ import annotations

from dataclasses import dataclass

from ..tasks import Answers, TaskSet
from ..tools import Catalog


@dataclass(frozen=True, slots=True)
class Marketplace:
    """Tools, tasks about them, and what the tools answer."""

    catalog: Catalog
    tasks: TaskSet
    answers: Answers
