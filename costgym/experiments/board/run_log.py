"""The episodes of a run on disk: `episodes.jsonl` with one result per line, and a trajectory file for each entry.

Both grow as episodes end, the trajectory first. An episode counts as played once both of its lines are complete; incomplete
lines after a crash are dropped and their episodes played again, so a run that was killed ends with the same bytes.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from costgym.experiments.board.conditions import grouped, row_of
from costgym.experiments.board.run_config import RowConfig, RunConfig
from costgym.experiments.play.results import EpisodeResult
from costgym.experiments.play.trajectories.format import parse_header, parse_trajectory
from costgym.simulators.errors import DataError
from costgym.simulators.files import LineFile, finished_file, iter_lines, make_folder, sync, write_atomically

Key = tuple[str, str, int, int]  # track, agent, number of the condition, index of the episode
FOLDER = "trajectories"
EPISODES = "episodes.jsonl"


class EpisodeOutput(NamedTuple):
    """The output of an episode: its result, and the header and line of its trajectory file. A void episode has no line."""

    result: EpisodeResult
    header: str
    line: str | None


class RunLog:
    """The episodes of a run; raises DataError if a line on disk is not a valid record."""

    def __init__(self, folder: Path, config: RunConfig) -> None:
        self._path = folder / EPISODES
        rows = list(config.rows())
        self._keys = {row.identity: row.key for row in rows}
        self._files = {row.key: folder / trajectory_path(row) for row in rows}
        self.recorded = self._load()
        for track in config.tracks:
            make_folder(folder / FOLDER / track.name)
        self._write(self.recorded.values())
        self._results = LineFile(self._path)
        self._trajectories: LineFile | None = None

    def __enter__(self) -> "RunLog":
        return self

    def __exit__(self, *exc: object) -> None:
        self._results.close()
        if self._trajectories is not None:
            self._trajectories.close()

    def add(self, played: EpisodeOutput) -> None:
        """Append an episode to the files; raises DataError where that fails, and leaves them as they were."""
        key = self._key(played.result)
        store = None
        if played.line is not None:
            store = self._open(self._files[key[:3]], played.header)
            store.append(played.line)
        try:
            self._results.append(played.result.to_json())
        except DataError:
            if store is not None:
                store.take_back()
            raise
        self.recorded[key] = played.result

    def finish(self) -> list[EpisodeResult]:
        """Close the files and put everything in order: by track, agent, condition and episode, however they ended."""
        self.__exit__()
        for path in self._files.values():
            _sort(path)
            if path.exists():
                sync(path)  # before the table says that they are there
        order = {key: index for index, key in enumerate(self._files)}
        results = [self.recorded[key] for key in sorted(self.recorded, key=lambda key: (order[key[:3]], key[3]))]
        self._write(results)
        return results

    def _write(self, results: Iterable[EpisodeResult]) -> None:
        write_atomically(self._path, "".join(f"{result.to_json()}\n" for result in results))

    def _key(self, result: EpisodeResult) -> Key:
        return (*self._keys[row_of(result)], result.episode)

    def _open(self, path: Path, header: str) -> LineFile:
        if self._trajectories is None or self._trajectories.path != path:
            if self._trajectories is not None:
                self._trajectories.close()
            self._trajectories = LineFile(path)
            if self._trajectories.empty:
                self._trajectories.append(header)
        return self._trajectories

    def _load(self) -> dict[Key, EpisodeResult]:
        results: dict[Key, EpisodeResult] = {}
        for number, line in enumerate(iter_lines(self._path) if self._path.exists() else (), 1):
            try:
                result = EpisodeResult.from_json(line)
                results[self._key(result)] = result
            except (DataError, KeyError) as error:
                problem = "belongs to no condition of this run" if isinstance(error, KeyError) else str(error)
                raise DataError(self._path, f"{problem}; delete the folder to start again", f"line {number}") from error
        wanted = grouped(results, lambda key: key[:3])
        there = {row: path for row, path in self._files.items() if path.exists()}
        recorded = {row: _keep(path, {key[3] for key in wanted.get(row, ())}) for row, path in there.items()}
        return {key: result for key, result in results.items() if result.void or key[3] in recorded.get(key[:3], ())}


def read_episodes(folder: Path) -> Iterator[EpisodeResult]:
    """Read the episodes of a run; raises DataError for a line that is not a valid record."""
    path = folder / EPISODES
    for number, line in enumerate(iter_lines(path), 1):
        try:
            yield EpisodeResult.from_json(line)
        except DataError as error:
            raise DataError(path, str(error), f"line {number}") from error


def trajectory_path(row: RowConfig) -> str:
    """Return the path of a row's trajectories within the run's folder."""
    return track_file(row.track.name, row.agent, row.condition.budget, row.condition.settings)


def track_file(track: str, agent: str, budget: Mapping[str, float], settings: Mapping[str, Any]) -> str:
    """The same by what names the row: `trajectories/text/react+btp.price=10.jsonl`."""
    limits = [f"{name}={json.dumps(limit).removesuffix('.0')}" for name, limit in budget.items()]
    limits += [f"{name}={quote(str(value), safe='')}" for name, value in settings.items()]
    name = f"{quote(agent, safe='+@')}.{','.join(limits) or 'unlimited'}.jsonl"
    return "/".join(filter(None, (FOLDER, track, name)))


def _numbered(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a trajectory file with their episodes' indices; the header is -1."""
    for number, line in enumerate(iter_lines(path), 1):
        if number == 1:
            parse_header(line, path)
            yield -1, line
        else:
            yield parse_trajectory(line, path, number).episode, line


def _keep(path: Path, wanted: set[int]) -> frozenset[int]:
    """Drop unneeded episodes and an incomplete last line; return the episodes that are left."""
    seen: set[int] = set()
    with finished_file(path, replace=True) as draft, draft.open("w", encoding="utf-8") as store:
        for episode, line in _numbered(path):
            if episode == -1 or (episode in wanted and episode not in seen):
                seen.add(episode)
                store.write(line + "\n")
    if not seen:  # not even the header is whole
        path.unlink()
    return frozenset(seen - {-1})


def _sort(path: Path) -> None:
    if not path.exists():
        return
    spans: list[tuple[int, int, int]] = []
    offset = 0
    for episode, line in _numbered(path):
        size = len(line.encode()) + 1
        spans.append((episode, offset, size))
        offset += size
    if spans == sorted(spans):
        return
    with finished_file(path, replace=True) as draft, path.open("rb") as store, draft.open("wb") as ordered:
        for _, start, size in sorted(spans):
            store.seek(start)
            ordered.write(store.read(size))
