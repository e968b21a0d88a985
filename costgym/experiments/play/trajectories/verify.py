"""Verify trajectory files by replay: recorded actions are replayed in the deterministic world and every value is compared.

Replay proves that these actions give these values in this world. It cannot prove that the named agent chose the actions without
knowing the outcome, or that a model really used the tokens that its actions report.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym

from costgym.experiments.play.execution.engine import Engine, Local
from costgym.experiments.play.trajectories.format import (
    Header,
    Trajectory,
    check_header,
    first_line,
    parse_header,
    parse_trajectory,
    seal_of,
)
from costgym.experiments.play.trajectories.replay import replay_episode
from costgym.simulators.errors import CostGymError, DataError
from costgym.simulators.files import has_tail
from costgym.simulators.world.episode import Episode


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of verifying a file by replay."""

    path: Path
    episodes: int
    problems: tuple[str, ...]  # problems found, as text with their position in the file

    @property
    def verified(self) -> bool:
        return not self.problems and self.episodes > 0


TAIL = "there are extra bytes after the last complete line"
CHUNK = 100  # number of episodes per task of an engine


def verify_file(
    path: str | Path, data: str | None = None, progress: Callable[[int], None] | None = None, engine: Engine | None = None
) -> Verdict:
    """Replay every episode of a trajectory file and compare every value; raises DataError if there is no file or header."""
    file = Path(path)
    if file.is_dir():
        file = file / "trajectories.jsonl"
    first, lines = first_line(file)
    header = parse_header(first, file)
    problems = check_header(header, data) or ([] if first == header.to_json() else [f"header: {NOT_AS_WRITTEN}"])
    if problems:
        return Verdict(file, 0, tuple(problems))
    try:
        checker_of(first, data)
    except (CostGymError, TypeError, ValueError) as error:
        return Verdict(file, 0, (f"header: the environment cannot be created: {error}",))
    good, seen = 0, _Seen()
    for checked in (engine or Local()).stream(_check_lines, (first, data, str(file)), numbered(lines)):
        if checked.unreadable:
            problems.append(checked.problem)
            break
        problem = "the file contains this episode twice" if seen.twice(checked.agent, checked.episode) else checked.problem
        if problem:
            problems.append(f"line {checked.line}, {checked.agent} episode {checked.episode}: {problem}")
        else:
            good += 1
        if progress is not None:
            progress(checked.line - 1)
    if has_tail(file):
        problems.append(TAIL)
    if not good and not problems:
        problems.append("the file contains no episode")
    return Verdict(file, good, tuple(problems))


class _Seen:
    """The set of earlier episodes. Files are usually in order, so a counter suffices; only exceptions take memory."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}
        self._out_of_order: set[tuple[str, int]] = set()

    def twice(self, agent: str, episode: int) -> bool:
        """Return whether an episode has occurred before, and add it."""
        if episode == self._next.get(agent, 0):
            self._next[agent] = episode + 1
            return (agent, episode) in self._out_of_order
        if episode < self._next.get(agent, 0) or (agent, episode) in self._out_of_order:
            return True
        self._out_of_order.add((agent, episode))
        return False


class _Found(NamedTuple):
    """The result of checking a line by replay."""

    line: int
    agent: str
    episode: int
    problem: str
    unreadable: bool = False  # whether the line is not a record, in which case the rest of the file is not checked


Line = tuple[int, str | DataError]  # a line's number, and its text or the reason why it cannot be read


def numbered(lines: Iterator[str]) -> Iterator[list[Line]]:
    """Yield the lines after the header in batches."""
    record = _read(lines)
    while some := list(islice(record, CHUNK)):
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
def checker_of(header: str, data: str | None) -> "Checker":
    return Checker(parse_header(header, Path("header")), data)


class Checker:
    """Checks the episodes of a file by replay; raises an error if its environment cannot be created."""

    def __init__(self, header: Header, data: str | None = None) -> None:
        self.header = header
        self.env = header.make(data)
        self._action = str if isinstance(self.env.action_space, gym.spaces.Text) else int

    def check(self, recorded: Trajectory, line: str) -> tuple[str, Episode | None]:
        """Check an episode: what is wrong, in words, or ""; and the episode as replay played it. Its line in the file must be,
        to the last character, what this record is written as."""
        for action in recorded.actions:
            if type(action) is not self._action:
                return f"actions: expected each to be of type {self._action.__name__}, got {action!r:.60}", None
        if not isinstance(recorded.options.get("scenario", 0), int):  # a world's number in a folder
            return "options, scenario: names another world than the header's", None
        try:
            played, episode = replay_episode(self.env, recorded)
        except (CostGymError, gym.error.Error, *BROKEN) as error:
            return f"cannot be replayed: {error}", None
        if not episode.over:
            return _difference_of(played, recorded) or "actions: the episode does not end with them", episode
        # equal bytes settle everything, the seal included; only a line that differs is taken apart to say where
        if line == played.sealed_json(self.header):
            return "", episode
        return _difference_of(played, recorded) or _check_seal(self.header, played, recorded) or NOT_AS_WRITTEN, episode


NOT_AS_WRITTEN = "has the right content, but not the bytes that costgym writes"
BROKEN = (TypeError, ValueError, OverflowError, AttributeError, KeyError, IndexError, AssertionError, RecursionError)
"""Exceptions that edited values can raise, such as a negative seed or an unknown task."""


def _check_seal(header: Header, played: Trajectory, recorded: Trajectory) -> str:
    in_order = replace(recorded, final={name: recorded.final[name] for name in played.final})
    if seal_of(in_order, header.seal) == recorded.seal:
        return ""
    return "seal: the agent, the model, the episode's index or the seal itself was edited after the record was written"


def _difference_of(played: Trajectory, recorded: Trajectory) -> str:
    """Return the first difference as text, or "" if there is none."""
    for field in fields(Trajectory):
        if field.name == "seal":
            continue
        wanted, got = getattr(played, field.name), getattr(recorded, field.name)
        if not _same(wanted, got):
            return f"{field.name}: {_difference(wanted, got)}"
    return ""


def _same(a: Any, b: Any) -> bool:
    """Compare two values, distinguishing 1, 1.0 and True as JSON does."""
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
            return f"replay has {len(wanted)} entries, the record has {len(got)}"
        index = next(i for i, (a, b) in enumerate(zip(wanted, got, strict=True)) if not _same(a, b))
        return f"entry {index}: replay says {wanted[index]!r:.120}, the record {got[index]!r:.120}"
    if isinstance(wanted, dict) and isinstance(got, dict):
        key = next(k for k in [*wanted, *got] if not (k in wanted and k in got and _same(wanted[k], got[k])))
        return f"{key}: replay says {wanted.get(key)!r:.120}, the record {got.get(key)!r:.120}"
    return f"replay says {wanted!r:.120}, the record {got!r:.120}"
