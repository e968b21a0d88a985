"""What every kind of episode has in common: who asked for what, when, at what price, and how it was graded.

Records, pictures and results are made from this alone, so they do not care what world an episode was played in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .calls import Call
from .ledger import Budget, Ledger
from .tasks import Grade, Task


class EpisodeView(Protocol):
    """An episode as it stands; an `Episode` of the tool world is one, an OpenCATP plan's `PlanView` another."""

    # read only: what holds an account may compute it anew at every look
    @property
    def task(self) -> Task:
        """What was asked."""
        ...

    @property
    def number(self) -> int:
        """The task's number, as `options["task"]` of a reset names it."""
        ...

    @property
    def seed(self) -> int:
        """Of the world's chance."""
        ...

    @property
    def budget(self) -> Budget:
        """What may be spent."""
        ...

    @property
    def calls(self) -> Sequence[Call]:
        """In the order asked for."""
        ...

    @property
    def ledger(self) -> Ledger:
        """What was spent."""
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
        """None until the end."""
        ...

    @property
    def over(self) -> bool:
        """It has ended."""
        ...

    def remaining(self) -> dict[str, float]:
        """What is left of each limited resource."""
        ...
