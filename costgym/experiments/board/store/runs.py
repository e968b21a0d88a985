"""A leaderboard run as data: its manifest, entries and episodes, read from the run's folder.

The store saves runs in this form and the site is built from it, so a site can be built from a folder or from a store.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from costgym.experiments.board.conditions import condition_key, row_key, settings_of
from costgym.experiments.board.run_log import EPISODES, read_episodes, track_file
from costgym.experiments.board.tracks import track_of
from costgym.experiments.play.metric_registry import plain
from costgym.experiments.play.results import EpisodeResult
from costgym.experiments.play.trajectories.verify import BROKEN
from costgym.simulators.errors import ConfigError, DataError
from costgym.simulators.files import read_json


@dataclass(frozen=True, slots=True)
class RunEntry:
    """A row of the leaderboard and the place of its episodes."""

    id: str  # short digest, the same wherever the entry is read from
    row: Mapping[str, Any]
    file: str  # path of its trajectories below the run's folder; empty without trajectories
    verified: bool  # whether replay confirmed all of its episodes


@dataclass(frozen=True)
class Run:
    """A run that has ended."""

    id: str  # digest of the manifest; equal configurations have equal ids
    manifest: Mapping[str, Any]  # the content of `run.json`
    document: Mapping[str, Any]  # the content of `leaderboard.json`
    folder: Path | None  # folder of the run's trajectories, or None if it is unknown
    entries: tuple[RunEntry, ...]  # one entry per row of the document, in its order
    results: Callable[[], Iterator[tuple[str, EpisodeResult]]]


def run_id(manifest: Mapping[str, Any]) -> str:
    """The id of a run: a digest of its configuration."""
    return _digest(manifest)


def entry_id(agent: str, condition: str) -> str:
    """Names an entry within its run: by agent, and by track and condition (`condition_key`)."""
    return _digest({"agent": agent, "condition": condition})


def _digest(document: Mapping[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(document, sort_keys=True).encode(), digest_size=8).hexdigest()


@contextmanager
def as_written(folder: Path) -> Iterator[None]:
    """Refuse a table whose parts are of other kinds than a run writes; raises DataError, which names it."""
    try:
        yield
    except BROKEN as error:
        problem = f"is not what a leaderboard run writes ({type(error).__name__}: {error})"
        raise DataError(folder / "leaderboard.json", problem) from error


def read_run(folder: str | Path) -> Run:
    """Read a run from its folder, a private copy of which is to stay as long as the run's files are read."""
    run_folder = Path(folder)
    document, manifest = read_ended(run_folder), read_json(run_folder / "run.json")
    if not isinstance(manifest, dict):
        raise DataError(run_folder / "run.json", "is not what a leaderboard run writes")
    with as_written(run_folder):
        entries = tuple(entry_of(row, document, run_folder) for row in document["rows"])
    if len({entry.id for entry in entries}) != len(entries):
        raise DataError(run_folder / "leaderboard.json", "contains an entry twice")
    return Run(run_id(manifest), manifest, document, run_folder, entries, lambda: _episodes(run_folder, entries))


def read_ended(folder: Path) -> dict[str, Any]:
    """The content of a run's `leaderboard.json`, as far as all who use it rely on it; raises ConfigError if the folder holds no
    run, or one that has not ended, or DataError if it cannot be read, or is not what a run writes."""
    path = folder / "leaderboard.json"
    missing = next((name for name in ("run.json", path.name) if not (folder / name).is_file()), None)
    if missing is not None:
        ended = "holds no run" if missing == "run.json" else "has not ended; run the leaderboard again to finish it"
        raise ConfigError("--run", f"{folder} {ended} (there is no {missing})")
    document = read_json(path)
    rows, kinds = document.get("rows") if isinstance(document, dict) else None, {"agent": str, "budget": dict}
    if not isinstance(rows, list) or not all(
        isinstance(row, dict) and all(isinstance(row.get(name), kind) for name, kind in kinds.items()) for row in rows
    ):
        raise DataError(path, "is not what a leaderboard run writes")
    return dict(document)


def entry_of(row: Mapping[str, Any], document: Mapping[str, Any], folder: Path | None) -> RunEntry:
    """Make the entry of a leaderboard's row, with its trajectory file if the folder has it."""
    agent, below = str(row["agent"]), ""
    if "submission" in row:
        name = row["submission"]["name"]
        agent, below = agent.removesuffix(f" ({name})"), f"submissions/{name}/"
    path = below + track_file(str(row.get("track", "")), agent, row.get("budget") or {}, settings_of(row, document))
    there = False
    with suppress(OSError):  # a name that no file can have
        there = folder is not None and (folder / path).is_file()
    return RunEntry(entry_id(str(row["agent"]), row_key(row, document)), row, path if there else "", bool(row.get("verified")))


def _episodes(folder: Path, entries: tuple[RunEntry, ...]) -> Iterator[tuple[str, EpisodeResult]]:
    """The run's own episodes, then those of its submissions."""
    known = {entry.id for entry in entries}
    for path in (folder / EPISODES, *sorted(folder.glob(f"submissions/*/{EPISODES}"))):
        for number, result in enumerate(read_episodes(path.parent), 1):
            entry = entry_id(result.agent, condition_key(result.budget, result.settings, track_of(result.env, result.settings)))
            if entry not in known:
                raise DataError(path, f"{plain(result.agent)} has no row in leaderboard.json", f"line {number}")
            yield entry, result
