"""Replay the entries of a submission: find the problems of each file and derive the results of its episodes.

An engine's tasks are batches of lines. The batches of all files form one queue, so that many short files keep many workers
busy. The findings do not depend on the engine: they are ordered by line, and after an unreadable line the rest of a file is
ignored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from ....envs.base import FILE_PLACES, base_env
from ....simulators.errors import CostGymError
from ...execution.engine import Engine
from ...files import iter_lines
from ...results import EpisodeResult
from ...rollout import AgentInfo, result_of
from ...trajectories.format import Header, check_header, parse_header, parse_trajectory
from ...trajectories.verify import Line, checker_of, numbered
from ..run_config import RunConfig
from .manifest import MAX_PROBLEMS, Submission, TrajectoryFile


class Terms(NamedTuple):
    """The data shared by all episodes of a submission, and the location of their scenario's data."""

    seed: int
    data: str | None


class Part(NamedTuple):
    """A batch of a file's lines to replay.

    Attributes:
        file: index of the file in the manifest.
        path: path of the file, for error messages only.
        header: first line of the file.
        agent, model: agent and model of all episodes in the file; None if its first episode cannot be read.
        settings: settings of the entry's condition.
        episodes: expected number of episodes.
        lines: lines of the batch.
    """

    file: int
    path: str
    header: str
    agent: str
    model: str | None
    settings: dict[str, Any]
    episodes: int
    lines: list[Line]


class Found(NamedTuple):
    """The finding for a line: the episode's result, or a problem; `last` ends the check of the file."""

    file: int
    result: EpisodeResult | None
    problem: str = ""
    last: bool = False


class CheckedFile:
    """The state of checking a file of a submission.

    Attributes:
        file: entry of the file in the manifest.
        episodes: expected number of episodes.
        problems: problems found, as text, at most `MAX_PROBLEMS`.
        results: results of the episodes that agree with replay.
        closed: whether the check of the file has ended.
    """

    def __init__(self, file: TrajectoryFile, episodes: int) -> None:
        self.file, self.episodes, self.closed = file, episodes, False
        self.problems: list[str] = []
        self.results: list[EpisodeResult] = []

    def object_to(self, problem: str, last: bool = False) -> None:
        """Add a problem, unless the file is closed."""
        if not self.closed:
            self.problems.append(problem)
            self.closed = last or len(self.problems) == MAX_PROBLEMS

    def finished(self) -> CheckedFile:
        """Close the file after its last line and return it."""
        if len(self.results) < self.episodes:
            self.object_to(f"{len(self.results)} of {self.episodes} episodes agree with replay", True)
        return self


def check_entries(folder: Path, manifest: Submission, data: str | None, engine: Engine) -> Iterator[CheckedFile]:
    """Replay the files of a submission, and yield each in order when it is checked.

    Args:
        folder: folder of the submission.
        manifest: the manifest, already checked.
        data: data folder or file of the scenario.
        engine: engine that replays the episodes.
    """
    files = [CheckedFile(file, manifest.condition_of(file).episodes) for file in manifest.files]
    checked = 0
    for found in engine.stream(_check_lines, Terms(manifest.run.seed, data), _parts(folder, manifest, files, data)):
        while checked < found.file:
            yield files[checked].finished()
            checked += 1
        file = files[found.file]
        if found.problem:
            file.object_to(found.problem, found.last)
        elif found.result is not None and not file.closed:
            file.results.append(found.result)
    for file in files[checked:]:
        yield file.finished()


def _parts(folder: Path, manifest: Submission, files: list[CheckedFile], data: str | None) -> Iterator[Part]:
    """Yield the engine's tasks: batches of lines of every readable file, until the file is closed."""
    for index, entry in enumerate(files):
        file, condition = entry.file, manifest.condition_of(entry.file)
        path = folder / file.path
        if path.is_symlink() or not path.is_file():
            entry.object_to("there is no such file", True)
            continue
        if digest_of(path) != file.digest:
            entry.object_to("digest: the file differs from the one for which the manifest was written")
        try:
            lines = iter_lines(path)
            first = next(lines, "")
            header = parse_header(first, path)
            wrong = check_header(header) or _check_world(manifest.run, file, header, data)
        except (CostGymError, TypeError, ValueError) as error:
            wrong = [str(error)]
        if wrong:
            entry.object_to(wrong[0], True)
            continue
        about = index, str(path), first, file.agent
        model: str | None = None
        begun = False
        for some in numbered(lines):
            if entry.closed:
                break
            if not begun:
                model = _model_of(some[0], path)
            begun = True
            yield Part(*about, model, condition.settings, condition.episodes, some)
        if not begun and not entry.closed:
            yield Part(*about, None, condition.settings, condition.episodes, [])  # checks that the environment can be created


def _model_of(line: Line, path: Path) -> str | None:
    """Return the model of a file's first episode, which all other episodes must have too."""
    number, text = line
    try:
        return None if not isinstance(text, str) else parse_trajectory(text, path, number).model
    except (CostGymError, TypeError, ValueError):
        return None


def _check_lines(terms: Terms, part: Part) -> Iterator[Found]:
    """Replay a batch of lines in a worker."""
    try:
        checker = checker_of(part.header, terms.data)
        world, who = base_env(checker.env), AgentInfo(part.agent, part.model or "")
        for number, line in part.lines:
            if not isinstance(line, str):
                raise line
            recorded = parse_trajectory(line, Path(part.path), number)
            place, index = f"line {number}, episode {recorded.episode}", number - 2
            if index >= part.episodes or recorded.episode != index:
                problem = f"expected the episodes 0 to {part.episodes - 1} in order, one per line"
                yield Found(part.file, None, f"{place}: {problem}", True)
                return
            if (recorded.agent, recorded.model) != (part.agent, part.model):
                problem = f"expected {(part.agent, part.model)}, got {(recorded.agent, recorded.model)}"
                yield Found(part.file, None, f"{place}: agent: {problem}")
                continue
            wanted = world.instance(index, terms.seed)
            if (recorded.number, recorded.seed, recorded.options) != wanted:
                got = (recorded.number, recorded.seed, recorded.options)
                problem = f"number and seed: episode {index} is {tuple(wanted)}, the record says {got}"
                yield Found(part.file, None, f"{place}: {problem}")
                continue
            problem, episode = checker.check(recorded, line)
            if problem or episode is None:
                yield Found(part.file, None, f"{place}: {problem}")
                continue
            yield Found(part.file, result_of(world, who, checker.header.env, index, part.settings))
    except (CostGymError, TypeError, ValueError) as error:
        yield Found(part.file, None, str(error), True)


def _check_world(run: RunConfig, file: TrajectoryFile, header: Header, data: str | None) -> list[str]:
    """Compare a file's header with that of the run's environment under the entry's condition; return the differences."""
    wanted = _header_of(run.model_dump_json(), header.env, file.condition, data)
    if header.digest != wanted.digest:
        return [f"header, digest: expected the run's scenario {wanted.digest}, got {header.digest}"]
    names = sorted((wanted.settings.keys() | header.settings.keys()) - FILE_PLACES)
    wrong = [name for name in names if header.settings.get(name) != wanted.settings.get(name)]
    return [f"header, {name}: expected {wanted.settings.get(name)!r}, got {header.settings.get(name)!r}" for name in wrong]


@lru_cache(maxsize=8)
def _header_of(run: str, env_id: str, condition: int, data: str | None) -> Header:
    config = RunConfig.model_validate_json(run)
    return Header.of(config.make_env(env_id, config.conditions[condition], data), env_id)


def digest_of(path: Path) -> str:
    """Compute the digest of a file for the manifest."""
    with path.open("rb") as store:
        return hashlib.file_digest(store, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
