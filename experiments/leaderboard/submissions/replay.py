"""The entries of a submission, replayed: what is wrong with each file, and what results its episodes bring.

The files' lines are the tasks of an engine, some at a time, those of the next file right behind those of the one before, so
that many short files keep many workers busy. What is found does not depend on the engine: findings come in the order of the
lines, and nothing behind a line counts after which a file cannot be read on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ....agents.base import TEXT
from ....simulators.errors import CostGymError
from ....simulators.ledger import Budget
from ...execution.engine import Engine
from ...files import iter_lines
from ...metrics import EpisodeResult
from ...rollout import AgentInfo, best_decision, result_of, world_of
from ...trajectories.format import Header, parse_header, parse_trajectory
from ...trajectories.verify import Line, check_header, checker_of, numbered
from ..board import STEP_LIMIT
from ..suites import SUITES
from .manifest import MOST_PROBLEMS, Submission, TrajectoryFile


class Terms(NamedTuple):
    """What all episodes of a submission have in common, and where a ToolBench scenario's data lies."""

    seed: int
    episodes: int
    grading: str
    data: str | None


class Part(NamedTuple):
    """Some lines of a file, to be replayed.

    Attributes:
        file: its place in the manifest.
        path: where it lies; named in errors, read by nobody.
        header: its first line.
        agent, model: who plays in all of it; None where its first episode cannot be read.
        budget: of the entry.
        lines: some of the others.
    """

    file: int
    path: str
    header: str
    agent: str
    model: str | None
    budget: dict[str, float]
    lines: list[Line]


class Found(NamedTuple):
    """What replay says of a line: what it brings, or what is wrong, after which the file may end."""

    file: int
    result: EpisodeResult | None
    problem: str = ""
    last: bool = False


class Entry:
    """A file of a submission, as far as it is checked.

    Attributes:
        file: what the manifest says of it.
        problems: what is wrong with it, in words, at most so many as are listed.
        results: of the episodes that agree.
        closed: nothing more of it counts.
    """

    def __init__(self, file: TrajectoryFile) -> None:
        self.file, self.closed = file, False
        self.problems: list[str] = []
        self.results: list[EpisodeResult] = []

    def object_to(self, problem: str, last: bool = False) -> None:
        """Write down what is wrong, unless the file is closed."""
        if not self.closed:
            self.problems.append(problem)
            self.closed = last or len(self.problems) == MOST_PROBLEMS


def check_entries(folder: Path, manifest: Submission, data: str | None, engine: Engine) -> Iterator[Entry]:
    """Replay the files of a submission; yields each once it is checked, in order.

    Args:
        folder: where they lie.
        manifest: already checked.
        data: folder of a ToolBench scenario.
        engine: where episodes are replayed.
    """
    entries = [Entry(file) for file in manifest.files]
    terms = Terms(manifest.seed, manifest.episodes, manifest.grading, data)
    checked = 0
    for found in engine.stream(_check_lines, terms, _parts(folder, manifest, entries)):
        while checked < found.file:
            yield _finished(entries[checked], manifest)
            checked += 1
        entry = entries[found.file]
        if found.problem:
            entry.object_to(found.problem, found.last)
        elif found.result is not None and not entry.closed:
            entry.results.append(found.result)
    for entry in entries[checked:]:
        yield _finished(entry, manifest)


def _finished(entry: Entry, manifest: Submission) -> Entry:
    if len(entry.results) < manifest.episodes:
        entry.object_to(f"{len(entry.results)} of {manifest.episodes} episodes agree with replay", True)
    return entry


def _parts(folder: Path, manifest: Submission, entries: list[Entry]) -> Iterator[Part]:
    """The tasks: the lines of every file that can be opened, until it is closed."""
    for index, entry in enumerate(entries):
        file = entry.file
        path = folder / file.path
        if path.is_symlink() or not path.is_file():
            entry.object_to("there is no such file", True)
            continue
        if digest_of(path) != file.digest:
            entry.object_to("digest: the file is not the one that the manifest was written for")
        try:
            lines = iter_lines(path)
            first = next(lines, "")
            header = parse_header(first, path)
            wrong = check_header(header) or _check_world(manifest, file, header)
        except (CostGymError, TypeError, ValueError) as error:
            wrong = [str(error)]
        if wrong:
            entry.object_to(wrong[0], True)
            continue
        model: str | None = None
        begun = False
        for some in numbered(lines):
            if entry.closed:
                break
            if not begun:
                model = _model_of(some[0], path)
            begun = True
            yield Part(index, str(path), first, file.agent, model, file.budget, some)
        if not begun and not entry.closed:
            yield Part(index, str(path), first, file.agent, None, file.budget, [])  # whether its world can be made


def _model_of(line: Line, path: Path) -> str | None:
    """The model that a file's first episode names; all others must name it too."""
    number, text = line
    try:
        return None if not isinstance(text, str) else parse_trajectory(text, path, number).model
    except (CostGymError, TypeError, ValueError):
        return None


def _check_lines(terms: Terms, part: Part) -> Iterator[Found]:
    """Replay some lines of a file, in a worker."""
    try:
        checker = checker_of(part.header, terms.data)
        who, budget = AgentInfo(part.agent, part.model or ""), Budget.from_mapping(part.budget)
        for number, line in part.lines:
            if not isinstance(line, str):
                raise line
            recorded = parse_trajectory(line, Path(part.path), number)
            place, index = f"line {number}, episode {recorded.episode}", number - 2
            if index >= terms.episodes or recorded.episode != index:
                problem = f"expected the episodes 0 to {terms.episodes - 1} in order, one a line"
                yield Found(part.file, None, f"{place}: {problem}", True)
                return
            if (recorded.agent, recorded.model) != (part.agent, part.model):
                problem = f"expected {(part.agent, part.model)}, got {(recorded.agent, recorded.model)}"
                yield Found(part.file, None, f"{place}: agent: {problem}")
                continue
            world = world_of(checker.env, index, terms.seed)
            if (recorded.number, recorded.seed) != world:
                problem = f"episode {index} is {world}, the record says {(recorded.number, recorded.seed)}"
                yield Found(part.file, None, f"{place}: number and seed: {problem}")
                continue
            problem, episode = checker.check(recorded, line)
            if problem or episode is None:
                yield Found(part.file, None, f"{place}: {problem}")
                continue
            best = best_decision(checker.env, budget)
            result = result_of(episode, who, checker.header.env, index, budget, terms.grading, best=best)
            yield Found(part.file, result)
    except (CostGymError, TypeError, ValueError) as error:
        yield Found(part.file, None, str(error), True)


def _check_world(manifest: Submission, file: TrajectoryFile, header: Header) -> list[str]:
    wanted = {
        "split": manifest.split,
        "budget": file.budget,
        "enforcement": "record",
        "grading": manifest.grading,
        "max_steps": STEP_LIMIT,
    }
    if header.env == TEXT and manifest.suite in SUITES:
        wanted |= dict(SUITES[manifest.suite].settings)
    if header.digest != manifest.digest:
        return [f"header, digest: expected the manifest's world {manifest.digest}, got {header.digest}"]
    wrong = [name for name in sorted(wanted.keys() | header.settings.keys()) if header.settings.get(name) != wanted.get(name)]
    return [f"header, {name}: expected {wanted.get(name)!r}, got {header.settings.get(name)!r}" for name in wrong]


def digest_of(path: Path) -> str:
    """What a manifest holds a file to."""
    with path.open("rb") as store:
        return hashlib.file_digest(store, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
