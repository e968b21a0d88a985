"""Join leaderboards that were played on the same tasks, worlds and seeds, so that their rows rank beside each other."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from costgym.experiments.board.conditions import rank_rows, row_key
from costgym.experiments.board.store.runs import Run, RunEntry, as_written, entry_id, run_id
from costgym.experiments.board.tracks import track_documents
from costgym.experiments.play.results import EpisodeResult
from costgym.simulators.errors import ConfigError

ALIKE = ("seed", "grading", "seeds", "ranked_by")  # what rows of one track have in common, besides their world
WORLD = ("world", "digest", "split", "profile")  # of a track's scenario


def merge(runs: Sequence[Run]) -> Run:
    """Join two or more runs. Tracks that only some of them have are taken as they are; of an entry that several have with the
    same figures one is kept, and others of the same name are told apart by their folder's. Nothing that a board says of
    itself is taken for verified.

    Raises:
        ConfigError: there are fewer than two, or a track was played in different worlds.
    """
    if len(runs) < 2:
        raise ConfigError("--merge", f"expected at least two folders of leaderboards, got {len(runs)}")
    tracks = _tracks(runs)
    conditions = {str(condition): condition for run in runs for condition in run.document.get("conditions") or ()}
    document = {name: value for name, value in runs[0].document.items() if name not in ("tracks", "conditions", "rows")}
    if any(run.document.get("tracks") for run in runs):
        document["tracks"] = list(tracks.values())
    document["conditions"] = list(conditions.values())
    document["merged"] = [run.document.get("run", run.id) for run in runs]
    entries: dict[str, RunEntry] = {}
    renamed: list[dict[str, str]] = []
    for run in runs:
        names: dict[str, str] = {}
        with as_written(run.folder or Path()):
            for entry in run.entries:
                made = _entry(run, entry, document, entries)
                if made is not None:
                    entries[made.id] = made
                    names[entry.id] = made.id
        renamed.append(names)
    with as_written(runs[0].folder or Path()):
        rows = rank_rows([entry.row for entry in entries.values()], document)
    ordered = {id(entry.row): entry for entry in entries.values()}

    def results() -> Iterator[tuple[str, EpisodeResult]]:
        for run, names in zip(runs, renamed, strict=True):
            for key, result in run.results():
                if key in names:
                    yield names[key], result

    manifest = {"format": "costgym.merged/1", "runs": [run.id for run in runs]}
    document |= {"run": run_id(manifest), "rows": list(rows)}
    return Run(run_id(manifest), manifest, document, runs[0].folder, tuple(ordered[id(row)] for row in rows), results)


def _tracks(runs: Sequence[Run]) -> dict[str, Mapping[str, Any]]:
    """The tracks of all runs by name; raises ConfigError if two of one name differ in their world."""
    tracks: dict[str, Mapping[str, Any]] = {}
    worlds: dict[str, tuple[Run, dict[str, Any]]] = {}
    for run in runs:
        with as_written(run.folder or Path()):
            played = {str(track.get("track", "")): _world(track) for track in track_documents(run.document)}
        for name, world in played.items():
            first, known = worlds.setdefault(name, (run, world))
            if differing := [what for what, value in world.items() if known[what] != value]:
                raise ConfigError(
                    "--merge",
                    f"expected the same tasks, worlds and seeds in track {name or 'of the board'!r}, got different "
                    f"{', '.join(differing)} in {first.folder} and {run.folder}; play both with the same options",
                )
        for track in run.document.get("tracks") or ():
            tracks.setdefault(str(track.get("name")), track)
    return tracks


def _world(track: Mapping[str, Any]) -> dict[str, Any]:
    """What the rows of a track have in common, by name."""
    scenario = dict(track.get("scenario") or {})
    return {**{name: track.get(name) for name in ALIKE}, **{f"scenario {name}": scenario.get(name) for name in WORLD}}


def _entry(run: Run, entry: RunEntry, document: Mapping[str, Any], known: Mapping[str, RunEntry]) -> RunEntry | None:
    """An entry of a merged board; None for one that is there already with the same figures."""
    row = {**entry.row, "verified": None}
    twin = known.get(entry_id(str(row["agent"]), row_key(row, document)))
    if twin is not None:
        if twin.row == row:
            return None
        row["agent"] = f"{row['agent']} ({run.folder.name if run.folder is not None else run.id})"
    file = str((run.folder / entry.file).resolve()) if run.folder is not None and entry.file else ""
    key = entry_id(str(row["agent"]), row_key(row, document))
    if key in known:
        raise ConfigError("--merge", f"expected one entry of {row['agent']!r} in a condition, got several; rename a folder")
    return replace(entry, id=key, row=row, file=file, verified=False)
