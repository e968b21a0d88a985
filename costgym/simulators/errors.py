"""The errors of costgym.

Each message says what was expected, what came and what to do; the values are also fields of the exception. Malformed output
of a language model raises none of these: it becomes an observation.
"""

import difflib
import importlib
from collections.abc import Collection, Iterable
from types import ModuleType
from typing import Any

LONGEST_MESSAGE = 1500  # characters, since names and values in it may be somebody else's


class CostGymError(Exception):
    """Base of every error that costgym raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        # rebuilt in another process from its text and fields, since most constructors take other arguments than `args`
        return BaseException.__new__, (type(self), *self.args), self.__dict__


def shortened(message: str) -> str:
    """A message without its middle where it is too long to be read."""
    half = LONGEST_MESSAGE // 2
    return message if len(message) <= LONGEST_MESSAGE else f"{message[:half]} … {message[-half:]}"


class ConfigError(CostGymError):
    """A setting, a scenario or a command line is wrong; `location` says where."""

    def __init__(self, location: str, problem: str) -> None:
        self.location, self.problem = location, problem
        super().__init__(shortened(f"{location}: {problem}"))


class DataError(CostGymError):
    """A file, or a record in it, cannot be read; `path` and `location` say where."""

    def __init__(self, path: object, problem: str, location: str = "") -> None:
        self.path, self.location, self.problem = str(path), location, problem
        super().__init__(shortened(f"{path}{f', {location}' if location else ''}: {problem}"))


MAX_LISTED = 12  # known names in a message that offers no near one


class UnknownName(CostGymError):
    """A name is not registered; the message offers the nearest known ones, or a better hint."""

    def __init__(self, kind: str, name: str, known: Iterable[str], better: str = "") -> None:
        self.kind, self.name, self.known = kind, name, sorted(known)
        self.nearest = difflib.get_close_matches(name[:200], self.known, n=3, cutoff=0.5)
        hint = f"; {better}" if better else f"; nearest: {', '.join(self.nearest)}" if self.nearest else ""
        few = len(self.known) <= MAX_LISTED
        listing = ", ".join(self.known[:MAX_LISTED]) + ("" if few else f" and {len(self.known) - MAX_LISTED} more")
        listed = f"; known: {listing or 'none'}" if few or not hint else ""
        super().__init__(shortened(f"unknown {kind} {name!r:.200}{hint}{listed}"))


class InvalidProfile(CostGymError):
    """A time, a memory size or a rate of a tool is negative, infinite or not a number."""


class InvalidPlan(CostGymError):
    """A plan is not valid; `reason` says why, and `location` where in it (a tool, or a position in the list)."""

    def __init__(self, reason: str, location: str = "") -> None:
        self.reason, self.location = reason, location
        super().__init__(f"invalid plan{f' at {location}' if location else ''}: {reason}")


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
    """A real back-end failed, such as a model server or a worker. The episode is void; it is never the agent's failure."""


class SpendLimitReached(CostGymError):
    """The next episode could cost more real money than a run may spend; what was played is kept."""

    def __init__(self, spent_usd: float, limit_usd: float, next_usd: float, played: int, episodes: int) -> None:
        self.spent_usd, self.limit_usd, self.next_usd = spent_usd, limit_usd, next_usd
        self.played, self.episodes = played, episodes
        super().__init__(
            f"spend limit: ${spent_usd:.4f} of ${limit_usd:.4f} spent on {played} of {episodes} episodes, and the next may "
            f"cost ${next_usd:.4f}. Played episodes are kept; the same command with a higher --spend-limit continues"
        )


class TrainingFailed(CostGymError):
    """Training failed in a way that more steps do not repair; `checkpoint` names the last good one, if there is one."""

    def __init__(self, step: int, problem: str, partial: object = None) -> None:
        self.step, self.problem, self.checkpoint = step, problem, None if partial is None else str(partial)
        rest = f"the last good checkpoint is kept: {partial}" if partial is not None else "there is no good checkpoint yet"
        super().__init__(f"step {step}: {problem}; {rest}. Try a lower learning rate")


class MissingExtra(CostGymError):
    """An optional dependency is not installed."""

    def __init__(self, module: str, extra: str) -> None:
        self.module, self.extra = module, extra
        super().__init__(f'{module} is not installed; run: pip install "costgym[{extra}]"')


def check_known(kind: str, name: Any, known: Collection[str]) -> None:
    """Raise UnknownName unless a name is a known one."""
    if name not in known:
        raise UnknownName(kind, str(name), known)


def check_positive(location: str, value: object, or_none: bool = False) -> None:
    """Raise ConfigError unless a setting is a positive whole number, or, where it may be, None."""
    allowed = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    if not allowed and not (or_none and value is None):
        raise ConfigError(location, f"expected a positive whole number{' or None' if or_none else ''}, got {value!r}")


def require(module: str, extra: str) -> ModuleType:
    """Import an optional dependency where it is used; raises MissingExtra, which names the extra that brings it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and module.split(".")[0] == error.name.split(".")[0]:
            raise MissingExtra(module, extra) from error
        raise
