"""Verification by replay: the recorded actions are played again in the deterministic world, and every figure must come out.

What replay proves: these actions, in this world, bring these figures. What it cannot prove: that the named agent chose them
without knowing the outcome, and that a model really used the tokens that its actions report.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import gymnasium as gym

from .. import __version__
from ..simulators.errors import CostGymError, DataError
from ..simulators.world import Episode
from .files import iter_lines
from .trajectories import (
    FORMAT,
    NOT_OF_THE_WORLD,
    Header,
    Trajectory,
    is_sealed,
    parse_header,
    parse_trajectory,
    replay_episode,
    seal_of,
)


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


def verify(path: str | Path, data: str | None = None, progress: Callable[[int], None] | None = None) -> Verdict:
    """Replay every episode of a trajectory file, a leaderboard run or a submission, and compare every figure.

    Args:
        path: a trajectory file, or the folder of a collection, of a run that has ended, or of a submission.
        data: folder of a ToolBench scenario, where it lies elsewhere now.
        progress: called with the number of episodes looked at.

    Raises:
        DataError: there is no file, or its header cannot be read.
    """
    file = Path(path)
    if (file / "run.json").is_file() or (file / "manifest.json").is_file():
        from .submissions import validate, validate_run

        whole = validate_run(file, data) if (file / "run.json").is_file() else validate(file, data)
        return Verdict(file, whole.episodes, whole.problems)
    if file.is_dir():
        file = file / "trajectories.jsonl"
    if not file.is_file():
        raise DataError(file, "there is no such file; expected a trajectory file (JSON lines)")
    lines = iter_lines(file)
    first = next(lines, None)
    if first is None:
        raise DataError(file, "is empty; expected a header and episodes")
    header = parse_header(first, file)
    problems = check_header(header)
    if problems:
        return Verdict(file, 0, tuple(problems))
    try:
        checker = Checker(header, data)
    except (CostGymError, TypeError, ValueError) as error:
        return Verdict(file, 0, (f"header: its world cannot be made: {error}",))
    good, number = 0, 1
    while True:
        number += 1
        try:
            line = next(lines, None)
            if line is None:
                break
            recorded = parse_trajectory(line, file, number)
        except DataError as error:
            problems.append(str(error))
            break
        problem, _ = checker.check(recorded, line)
        if problem:
            problems.append(f"line {number}, {recorded.agent} episode {recorded.episode}: {problem}")
        else:
            good += 1
        if progress is not None:
            progress(number - 1)
    if not good and not problems:
        problems.append("the file holds no episode")
    return Verdict(file, good, tuple(problems))


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
        self._next: dict[str, int] = {}
        self._out_of_order: set[tuple[str, int]] = set()

    def check(self, recorded: Trajectory, line: str = "") -> tuple[str, Episode | None]:
        """What is wrong with an episode, in words, or ""; and the episode as replay played it.

        Args:
            recorded: the episode.
            line: as it stands in the file; where it is sealed and replay agrees to the last bit, nothing else need be compared.
        """
        if self._twice(recorded.agent, recorded.episode):
            return "this episode stands in the file twice", None
        for action in recorded.actions:
            if type(action) is not self._action:
                return f"actions: expected each to be of type {self._action.__name__}, got {action!r:.60}", None
        try:
            played, episode = replay_episode(self.env, recorded)
        except (CostGymError, gym.error.Error, *_BROKEN) as error:
            return f"cannot be replayed: {error}", None
        if line and _to_the_bit(played) == _to_the_bit(recorded) and is_sealed(line, recorded, self.header):
            return "", episode
        return _difference_of(played, recorded) or _check_seal(self.header, played, recorded), episode

    def _twice(self, agent: str, episode: int) -> bool:
        """Whether this episode came before. Files are in order, so a counter does; only strays take memory."""
        if episode == self._next.get(agent, 0):
            self._next[agent] = episode + 1
            return (agent, episode) in self._out_of_order
        if episode < self._next.get(agent, 0) or (agent, episode) in self._out_of_order:
            return True
        self._out_of_order.add((agent, episode))
        return False


_BROKEN = (TypeError, ValueError, OverflowError, AttributeError, KeyError, IndexError, AssertionError, RecursionError)
"""What edited values may set off in Python: a seed that is negative, a task that there is not."""


def check_header(header: Header) -> list[str]:
    """What is wrong with a header, in words."""
    if header.format != FORMAT:
        return [f"header, format: expected {FORMAT!r}, got {header.format!r}"]
    if header.version != __version__:
        return [f"header, version: recorded with costgym {header.version}, this is {__version__}; verify with that version"]
    if not header.env.startswith("costgym/") or header.env not in gym.registry:
        return [f"header, env: expected an environment of costgym, got {header.env!r}"]
    strange = sorted(header.settings.keys() & NOT_OF_THE_WORLD)
    if strange:
        return [f"header, settings: {strange[0]!r} does not belong there"]
    try:
        digest = header.scenario_model().digest
    except CostGymError as error:
        return [f"header, scenario: {error}"]
    if digest != header.digest:
        return [f"header, digest: the scenario's is {digest}, the file says {header.digest}"]
    if seal_of(header) != header.seal:
        return ["header, seal: env, settings or another field was edited after the file was written"]
    return []


def _to_the_bit(record: Trajectory) -> bytes:
    """What replay derives of a record, its types included: 1, 1.0 and True differ, as do 0.0 and -0.0."""
    derived = (
        record.task, record.number, record.seed, record.actions, record.rewards, record.observations, record.calls,
        record.charges, record.truncated, record.final,
    )  # fmt: skip
    return marshal.dumps(derived, 2)  # the last version that writes equal values alike, whoever else refers to them


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
