"""Replay the trajectory files of a run or a submission: the problems of each file, and the results of its episodes.

An engine's tasks are batches of lines. The batches of all files form one queue, so that many short files keep many workers
busy. The findings do not depend on the engine: they are ordered by line, and after an unreadable line the rest of a file is
ignored.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import gymnasium as gym

from costgym.envs.base import FILE_PLACES, base_env
from costgym.experiments.board.conditions import row_of
from costgym.experiments.board.run_config import RowConfig, RunConfig, TrackConfig, world_of
from costgym.experiments.board.run_log import EPISODES
from costgym.experiments.board.submissions.alarms import Played, evidence_of
from costgym.experiments.board.submissions.manifest import MAX_PROBLEMS
from costgym.experiments.play.episodes import AgentInfo, instance_of, result_of, void_result
from costgym.experiments.play.execution.engine import Engine
from costgym.experiments.play.results import EpisodeResult
from costgym.experiments.play.trajectories.format import Header, check_header, parse_header, parse_trajectory
from costgym.experiments.play.trajectories.verify import NOT_AS_WRITTEN, TAIL, Line, checker_of, numbered
from costgym.simulators.errors import CostGymError
from costgym.simulators.files import has_tail, iter_lines

Voids = Mapping[int, EpisodeResult]  # results of a row's void episodes, by index: they have no line


class RecordedRow(NamedTuple):
    """A trajectory file that is to hold all episodes of a row."""

    path: str  # of the file, below its folder
    row: RowConfig  # what it has to be
    digest: str | None = None  # of the file, where something vouches for it
    data: str | None = None  # folder or file that its world is read from, where that is not the one that the file names
    void: Voids = MappingProxyType({})  # results of its void episodes, by index: they have no line


class Part(NamedTuple):
    """A batch of a file's lines to replay; agent, model and seed are those of all its episodes."""

    file: int  # its place in the list
    path: str  # where it lies; named in errors, read by nobody
    header: str  # its first line
    data: str | None  # folder or file that its world is read from
    agent: str
    model: str | None  # None where the first episode cannot be read
    settings: dict[str, Any]  # of its condition
    episodes: int  # how many it is to have, void ones included
    void: frozenset[int]  # those that are void and have no line
    seed: int
    seeds: int  # that a task has
    lines: list[Line]  # some of the others


class Found(NamedTuple):
    """The verdict of replay on a line: what it brings and shows of its agent, or what is wrong."""

    file: int
    played: Played | None
    problem: str = ""
    last: bool = False


class CheckedFile:
    """A file of a run or submission, as far as it is checked; once `closed`, nothing more of it counts."""

    def __init__(self, file: RecordedRow) -> None:
        self.file, self.episodes, self.closed = file, file.row.condition.episodes, False
        self.problems: list[str] = []  # at most so many as are listed
        self.played: list[Played] = []  # the episodes that agree

    def object_to(self, problem: str, last: bool = False) -> None:
        """Add a problem, unless the file is closed."""
        if not self.closed:
            self.problems.append(problem)
            self.closed = last or len(self.problems) == MAX_PROBLEMS

    def finished(self) -> "CheckedFile":
        """Close the file after its last line and return it."""
        void = [Played(result) for result in self.file.void.values()]
        if len(self.played) + len(void) < self.episodes:
            self.object_to(f"{len(self.played)} of {self.episodes} episodes agree with replay", True)
        self.played = sorted([*self.played, *void], key=lambda episode: episode.result.episode)
        return self


def check_entries(folder: Path, seed: int, rows: Sequence[RecordedRow], engine: Engine) -> Iterator[CheckedFile]:
    """Replay the files of a run or a submission; yields each once it is checked, in order."""
    files = [CheckedFile(row) for row in rows]
    checked = 0
    for checked_line in engine.stream(_check_lines, None, _parts(folder, seed, files)):
        # findings come in the order of the files, so all earlier files are through
        while checked < checked_line.file:
            yield files[checked].finished()
            checked += 1
        file = files[checked_line.file]
        if checked_line.problem:
            file.object_to(checked_line.problem, checked_line.last)
        elif checked_line.played is not None and not file.closed:
            file.played.append(checked_line.played)
    for file in files[checked:]:
        yield file.finished()


def _parts(folder: Path, seed: int, files: list[CheckedFile]) -> Iterator[Part]:
    """The tasks: the lines of every file that can be opened, until it is closed."""
    for index, entry in enumerate(files):
        file, row = entry.file, entry.file.row
        path = folder / file.path
        if len(file.void) == row.condition.episodes and not path.exists():
            continue  # nothing was played, so there is no line
        if path.is_symlink() or not path.is_file():
            entry.object_to("there is no such file", True)
            continue
        try:
            if file.digest is not None and digest_of(path) != file.digest:
                entry.object_to("digest: the file is not the one that the manifest was written for")
            if has_tail(path):
                entry.object_to(TAIL)
            lines = iter_lines(path)
            first = next(lines, "")
            header = parse_header(first, path)
            wrong = check_header(header, file.data) or _check_world(file, header)
            if not wrong and first != header.to_json():
                wrong = [f"header: {NOT_AS_WRITTEN}"]
        except (CostGymError, TypeError, ValueError, OSError) as error:
            wrong = [str(error)]
        if wrong:
            entry.object_to(wrong[0], True)
            continue
        about = index, str(path), first, file.data, row.agent
        terms = row.condition.settings, row.condition.episodes, frozenset(file.void), seed, row.track.seeds
        batches = numbered(lines)
        begin = next(batches, [])  # without lines, replay says whether the world can be made
        model = _model_of(begin, path)
        for some in chain([begin], batches):
            # closed meanwhile by what replay found in its first lines: the others would not be listed
            if entry.closed:
                break
            yield Part(*about, model, *terms, some)


def _model_of(lines: Sequence[Line], path: Path) -> str | None:
    """The model of a file's first episode, which all other episodes must have too."""
    try:
        number, text = lines[0]
        return parse_trajectory(text, path, number).model if isinstance(text, str) else None
    except (CostGymError, TypeError, ValueError, IndexError):
        return None


def _check_lines(shared: None, part: Part) -> Iterator[Found]:
    """Replay some lines of a file, in a worker."""
    try:
        checker = checker_of(part.header, part.data)
        world, who = base_env(checker.env), AgentInfo(part.agent, part.model or "")
        wanted = [index for index in range(part.episodes) if index not in part.void]
        for number, line in part.lines:
            if not isinstance(line, str):
                raise line
            recorded = parse_trajectory(line, Path(part.path), number)
            location, index = f"line {number}, episode {recorded.episode}", recorded.episode
            if number - 2 >= len(wanted) or index != wanted[number - 2]:
                but = ", but for void ones" if part.void else ""
                problem = f"expected the episodes 0 to {part.episodes - 1} in order, one per line{but}"
                yield Found(part.file, None, f"{location}: {problem}", True)
                return
            if (recorded.agent, recorded.model) != (part.agent, part.model):
                problem = f"expected {(part.agent, part.model)}, got {(recorded.agent, recorded.model)}"
                yield Found(part.file, None, f"{location}: agent: {problem}")
                continue
            instance = instance_of(world, index, part.seed, part.seeds)
            if (recorded.number, recorded.seed, recorded.options) != instance:
                got = (recorded.number, recorded.seed, recorded.options)
                problem = f"number and seed: episode {index} is {tuple(instance)}, the record says {got}"
                yield Found(part.file, None, f"{location}: {problem}")
                continue
            problem, episode = checker.check(recorded, line)
            if problem or episode is None:
                yield Found(part.file, None, f"{location}: {problem}")
                continue
            about = recorded.crash, recorded.replies
            result = result_of(world, who, checker.header.env, index, part.settings, False, "", *about)
            yield Found(part.file, Played(result, evidence_of(world, episode, recorded.actions, result)))
    except (CostGymError, TypeError, ValueError) as error:
        yield Found(part.file, None, str(error), True)


def void_episodes(
    folder: Path, run: RunConfig, data: str | None
) -> tuple[dict[tuple[str, str, int], dict[int, EpisodeResult]], list[str]]:
    """The void episodes of a run as their worlds have them, by row and index, and what is wrong, in words."""
    rows = {row.identity: row for row in run.rows()}
    void: dict[tuple[str, str, int], dict[int, EpisodeResult]] = {}
    try:
        for line in iter_lines(folder / EPISODES) if (folder / EPISODES).is_file() else ():
            result = EpisodeResult.from_json(line)
            row = rows.get(row_of(result))
            if result.void and row is not None:
                reasons = {result.episode: result.void_reason}
                results = void_results(row, run.seed, result.env, result.model, reasons, data)
                void.setdefault(row.key, {}).update(results)
    except (CostGymError, TypeError, ValueError) as error:
        return void, [f"{EPISODES}: {error}"]
    return void, []


def voids_of_file(path: Path, row: RowConfig, seed: int, reasons: Mapping[int, str], data: str | None) -> Voids:
    """The void episodes that a manifest or a record declares of a trajectory file; none where the file cannot be read."""
    if not reasons:
        return {}
    try:
        lines = iter_lines(path)
        header = parse_header(next(lines, ""), path)
        return void_results(row, seed, header.env, parse_trajectory(next(lines, ""), path, 2).model, reasons, data)
    except (CostGymError, OSError, TypeError, ValueError):
        return {}


def void_results(
    row: RowConfig, seed: int, env_id: str, model: str | None, reasons: Mapping[int, str], data: str | None
) -> Voids:
    """The results of a row's void episodes, by index; reasons beyond the row's episodes are left out."""
    world = base_env(_env_of(row.track.model_dump_json(), env_id, row.number, None if row.track.data is None else data))
    about = world, AgentInfo(row.agent, model or ""), env_id
    terms = seed, row.track.seeds, row.condition.settings
    return {index: void_result(*about, index, *terms, why) for index, why in reasons.items() if index < row.condition.episodes}


@lru_cache(maxsize=2)
def _env_of(track: str, env_id: str, condition: int, data: str | None) -> gym.Env[Any, Any]:
    config = TrackConfig.model_validate_json(track)
    return config.make_env(env_id, config.conditions[condition], data)


def _check_world(file: RecordedRow, header: Header) -> list[str]:
    """List how a file's header differs from that of its row's own environment."""
    wanted = _header_of(file.row.track.model_dump_json(), header.env, file.row.number, file.data)
    if (digest := wanted.world.digest_like(header.digest)) != header.digest:
        return [f"header, digest: expected the run's scenario {digest}, got {header.digest}"]
    names = sorted((wanted.settings.keys() | header.settings.keys()) - FILE_PLACES)
    wrong = [name for name in names if header.settings.get(name) != wanted.settings.get(name)]
    if wrong:
        return [f"header, {name}: expected {wanted.settings.get(name)!r}, got {header.settings.get(name)!r}" for name in wrong]
    if world_of(header.scenario) != world_of(wanted.scenario):
        return ["header, scenario: is not the run's"]
    return []


@lru_cache(maxsize=8)
def _header_of(track: str, env_id: str, condition: int, data: str | None) -> Header:
    return Header.of(_env_of(track, env_id, condition, data), env_id)


def digest_of(path: Path) -> str:
    """Compute the digest of a file for the manifest."""
    with path.open("rb") as store:
        return hashlib.file_digest(store, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
