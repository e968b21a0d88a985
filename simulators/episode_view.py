"""The common view of an episode of any world: the task, the calls, what was spent, and the grade.

Records, pictures and results are made from this view alone, so they work for every world.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .calls import Call
from .ledger import Budget, Ledger
from .tasks import Grade, Task


class EpisodeView(Protocol):
    """An episode at one moment. The tool world's `Episode` has this interface, and so has OpenCATP's `PlanView`."""

    # properties, because a view may compute them anew at every look
    @property
    def task(self) -> Task:
        """The task that is played."""
        ...

    @property
    def number(self) -> int:
        """The task's number, as `options["task"]` of a reset names it."""
        ...

    @property
    def seed(self) -> int:
        """The seed of the world's chance."""
        ...

    @property
    def budget(self) -> Budget:
        """The limits on what may be spent."""
        ...

    @property
    def calls(self) -> Sequence[Call]:
        """The calls, in the order in which they were asked for."""
        ...

    @property
    def ledger(self) -> Ledger:
        """The charges and their totals."""
        ...

    @property
    def now_s(self) -> float:
        """Simulated seconds since the start."""
        ...

    @property
    def exceeded(self) -> str | None:
        """The resource whose limit was passed, if any."""
        ...

    @property
    def grade(self) -> Grade | None:
        """The grade of the answer; None until the end."""
        ...

    @property
    def over(self) -> bool:
        """Return whether the episode has ended."""
        ...

    def remaining(self) -> dict[str, float]:
        """Return what is left of each limited resource."""
        ...
