"""The errors of costgym.

Each says what was expected, what came and what to do, and carries the values as fields. A model's nonsense is never one
of these: it is an observation.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable
from types import ModuleType
from typing import Any


class CostGymError(Exception):
    """Base of every error that costgym raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        # raised in another process, an error is made there from its text and fields: most take other arguments than `args`
        return BaseException.__new__, (type(self), *self.args), self.__dict__


class ConfigError(CostGymError):
    """A setting, a scenario or a command line that makes no sense; `place` names where it stands."""

    def __init__(self, place: str, problem: str) -> None:
        self.place, self.problem = place, problem
        super().__init__(f"{place}: {problem}")


class DataError(CostGymError):
    """A file or a record in it that cannot be read; `path` and `place` name where."""

    def __init__(self, path: object, problem: str, place: str = "") -> None:
        self.path, self.place, self.problem = str(path), place, problem
        super().__init__(f"{path}{f', {place}' if place else ''}: {problem}")


class UnknownName(CostGymError):
    """A name that is not registered; the nearest known ones are offered."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind, self.name, self.known = kind, name, sorted(known)
        self.nearest = difflib.get_close_matches(name, self.known, n=3, cutoff=0.4)
        hint = f"; nearest: {', '.join(self.nearest)}" if self.nearest else ""
        listing = ", ".join(self.known[:30]) + (", ..." if len(self.known) > 30 else "")
        super().__init__(f"unknown {kind} {name!r}{hint}; known: {listing or 'none'}")


class InvalidProfile(CostGymError):
    """A time, a memory or a rate of a tool that cannot be: negative, infinite or not a number."""


class InvalidPlan(CostGymError):
    """A plan that is none; `reason` says why and `place` where in it (a tool, or a position in the list)."""

    def __init__(self, reason: str, place: str = "") -> None:
        self.reason, self.place = reason, place
        super().__init__(f"invalid plan{f' at {place}' if place else ''}: {reason}")


class BudgetExceeded(CostGymError):
    """More was spent than the budget allows."""

    def __init__(self, resource: str, spent: float, limit: float) -> None:
        self.resource, self.spent, self.limit = resource, spent, limit
        super().__init__(
            f"{resource}: spent {spent:g} of a budget of {limit:g}; raise the budget or let the agent plan within it"
        )


class EpisodeOver(CostGymError):
    """The episode has ended; reset before the next call."""


class InfrastructureError(CostGymError):
    """A real back-end failed (a model server down, a worker lost). Never an agent's failure: the episode is void."""


class TrainingFailed(CostGymError):
    """Training went wrong in a way that more steps do not mend; `kept` names the last good checkpoint, if there is one."""

    def __init__(self, step: int, problem: str, kept: object = None) -> None:
        self.step, self.problem, self.kept = step, problem, None if kept is None else str(kept)
        rest = f"the last good checkpoint is kept: {kept}" if kept is not None else "there is no good checkpoint yet"
        super().__init__(f"step {step}: {problem}; {rest}. Try a lower learning rate")


class MissingExtra(CostGymError):
    """An optional dependency is not installed."""

    def __init__(self, module: str, extra: str) -> None:
        self.module, self.extra = module, extra
        super().__init__(f'{module} is not installed; run: pip install "costgym[{extra}]"')


def require(module: str, extra: str) -> ModuleType:
    """Import an optional dependency where it is used.

    Raises:
        MissingExtra: it is not installed; the message names the extra that brings it.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and module.split(".")[0] == error.name.split(".")[0]:
            raise MissingExtra(module, extra) from error
        raise
