"""Verification by replay: the recorded actions are played again in the deterministic world, and every figure must come out.

What replay proves: these actions, in this world, bring these figures. What it cannot prove: that the named agent chose them
without knowing the outcome, and that a model really used the tokens that its actions report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym

from ...simulators.episode_view import EpisodeView
from ...simulators.errors import CostGymError, DataError
from ..execution.engine import Engine, Local
from ..files import has_tail, iter_lines
from .format import Header, Trajectory, check_header, parse_header, parse_trajectory, seal_of
from .replay import replay_episode


@dataclass(frozen=True, slots=True)
class Verdict:
    """What replay says of a file.

    Attributes:
        path: the file.
        episodes: how many agreed.
        problems: what did not, in words, each with its place.
    """

    path: Path
    episodes: int
    problems: tuple[str, ...]

    @property
    def verified(self) -> bool:
        return not self.problems and self.episodes > 0


TAIL = "after the last whole line stands something that belongs to no record"
CHUNK = 100
"""Episodes of one task of an engine."""


def verify_file(
    path: str | Path,
    data: str | None = None,
    progress: Callable[[int], None] | None = None,
    engine: Engine | None = None,
) -> Verdict:
    """Replay every episode of a trajectory file, and compare every figure.

    Args:
        path: a trajectory file, or the folder of a collection.
        data: the folder or file that the world is read from, where it lies elsewhere now.
        progress: called with the number of episodes looked at.
        engine: where episodes are replayed; by default here. The verdict does not depend on it.

    Raises:
        DataError: there is no file, or its header cannot be read.
    """
    file = Path(path)
    if file.is_dir():
        file = file / "trajectories.jsonl"
    if not file.is_file():
        raise DataError(file, "there is no such file; expected a trajectory file (JSON lines)")
    lines = iter_lines(file)
    first = next(lines, None)
    if first is None:
        raise DataError(file, "is empty; expected a header and episodes")
    header = parse_header(first, file)
    problems = check_header(header, data) or ([] if first == header.to_json() else [f"header: {NOT_AS_WRITTEN}"])
    if problems:
        return Verdict(file, 0, tuple(problems))
    try:
        checker_of(first, data)
    except (CostGymError, TypeError, ValueError) as error:
        return Verdict(file, 0, (f"header: its world cannot be made: {error}",))
    good, seen = 0, _Seen()
    for found in (engine or Local()).stream(_check_lines, (first, data, str(file)), numbered(lines)):
        if found.unreadable:
            problems.append(found.problem)
            break
        problem = "this episode stands in the file twice" if seen.twice(found.agent, found.episode) else found.problem
        if problem:
            problems.append(f"line {found.line}, {found.agent} episode {found.episode}: {problem}")
        else:
            good += 1
        if progress is not None:
            progress(found.line - 1)
    if has_tail(file):
        problems.append(TAIL)
    if not good and not problems:
        problems.append("the file holds no episode")
    return Verdict(file, good, tuple(problems))


class _Seen:
    """The episodes that came before. Files are in order, so a counter does; only strays take memory."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}
        self._out_of_order: set[tuple[str, int]] = set()

    def twice(self, agent: str, episode: int) -> bool:
        """Whether this one came before; from now on it did."""
        if episode == self._next.get(agent, 0):
            self._next[agent] = episode + 1
            return (agent, episode) in self._out_of_order
        if episode < self._next.get(agent, 0) or (agent, episode) in self._out_of_order:
            return True
        self._out_of_order.add((agent, episode))
        return False


class _Found(NamedTuple):
    """What replay says of one line.

    Attributes:
        line: its number.
        agent, episode: what it records.
        problem: what is wrong with it, in words, or "".
        unreadable: it is no record, so nothing can be said about the rest of the file.
    """

    line: int
    agent: str
    episode: int
    problem: str
    unreadable: bool = False


Line = tuple[int, str | DataError]
"""A line's number and its text, or why it cannot be read."""


def numbered(lines: Iterator[str]) -> Iterator[list[Line]]:
    """A file's lines after its first, some at a time."""
    each = _read(lines)
    while some := list(islice(each, CHUNK)):
        yield some


def _read(lines: Iterator[str]) -> Iterator[Line]:
    number = 1
    try:
        for number, line in enumerate(lines, 2):
            yield number, line
    except DataError as error:
        yield number + 1, error


def _check_lines(shared: tuple[str, str | None, str], lines: Sequence[Line]) -> Iterator[_Found]:
    header, data, file = shared
    checker, path = checker_of(header, data), Path(file)
    for number, line in lines:
        try:
            if isinstance(line, DataError):
                raise line
            recorded = parse_trajectory(line, path, number)
        except DataError as error:
            yield _Found(number, "", 0, str(error), True)
            return
        yield _Found(number, recorded.agent, recorded.episode, checker.check(recorded, line)[0])


@lru_cache(maxsize=2)
def checker_of(header: str, data: str | None) -> Checker:
    return Checker(parse_header(header, Path("header")), data)


class Checker:
    """Replays the episodes of one file.

    Args:
        header: the file's, already checked.
        data: folder of a ToolBench scenario, where it lies elsewhere now.

    Raises:
        CostGymError, TypeError, ValueError: no world can be made of the header.
    """

    def __init__(self, header: Header, data: str | None = None) -> None:
        self.header = header
        self.env = header.make(data)
        self._action = str if isinstance(self.env.action_space, gym.spaces.Text) else int

    def check(self, recorded: Trajectory, line: str) -> tuple[str, EpisodeView | None]:
        """What is wrong with an episode, in words, or ""; and the episode as replay played it.

        Args:
            recorded: the episode.
            line: as it stands in the file; it must be, to the last character, what this episode's record is written as.
        """
        for action in recorded.actions:
            if type(action) is not self._action:
                return f"actions: expected each to be of type {self._action.__name__}, got {action!r:.60}", None
        try:
            played, episode = replay_episode(self.env, recorded)
        except (CostGymError, gym.error.Error, *BROKEN) as error:
            return f"cannot be replayed: {error}", None
        if not episode.over:
            return _difference_of(played, recorded) or "actions: the episode does not end with them", episode
        if line == played.sealed_json(self.header):
            return "", episode
        return _difference_of(played, recorded) or _check_seal(self.header, played, recorded) or NOT_AS_WRITTEN, episode


NOT_AS_WRITTEN = "says the same in other characters than costgym writes"
BROKEN = (TypeError, ValueError, OverflowError, AttributeError, KeyError, IndexError, AssertionError, RecursionError)
"""What edited values may set off in Python: a seed that is negative, a task that there is not."""


def _check_seal(header: Header, played: Trajectory, recorded: Trajectory) -> str:
    in_order = replace(recorded, final={name: recorded.final[name] for name in played.final})
    if seal_of(in_order, header.seal) == recorded.seal:
        return ""
    return "seal: the agent, the model, the episode's index or the seal itself was edited after the record was written"


def _difference_of(played: Trajectory, recorded: Trajectory) -> str:
    """What differs first, in words; empty where nothing does."""
    for field in fields(Trajectory):
        if field.name == "seal":
            continue
        wanted, got = getattr(played, field.name), getattr(recorded, field.name)
        if not _same(wanted, got):
            return f"{field.name}: {_difference(wanted, got)}"
    return ""


def _same(a: Any, b: Any) -> bool:
    """Equality that keeps 1, 1.0 and True apart where JSON does."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    return bool(a == b)


def _difference(wanted: Any, got: Any) -> str:
    if isinstance(wanted, list) and isinstance(got, list):
        if len(wanted) != len(got):
            return f"replay has {len(wanted)} entries, the record {len(got)}"
        index = next(i for i, (a, b) in enumerate(zip(wanted, got, strict=True)) if not _same(a, b))
        return f"entry {index}: replay says {wanted[index]!r:.120}, the record {got[index]!r:.120}"
    if isinstance(wanted, dict) and isinstance(got, dict):
        key = next(k for k in [*wanted, *got] if not (k in wanted and k in got and _same(wanted[k], got[k])))
        return f"{key}: replay says {wanted.get(key)!r:.120}, the record {got.get(key)!r:.120}"
    return f"replay says {wanted!r:.120}, the record {got!r:.120}"
