"""A leaderboard run as data: its manifest, its entries and its episodes, read from the run's folder.

The store keeps runs in this form and the site is made from it, so it does not matter which of the two a run comes from.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

from ....simulators.errors import ConfigError, CostGymError, DataError
from ....simulators.quality import quality_of_plan
from ....simulators.scenario import parse_scenario
from ....simulators.status import Origin, Status
from ...files import iter_lines
from ...metrics import ORIGINS, EpisodeResult
from ...trajectories.format import Trajectory, read_trajectories
from ..metric_columns import budget_label, plain
from ..run_log import FOLDER, file_name

_ORIGIN_OF = {status.label: status.origin for status in Status}
PLANS = "plans.jsonl"
"""Where a leaderboard of the suite `opencatp` has its plans, which are its episodes."""
_NAMES_AN_ENTRY = ("agent", "budget", "tasks", "alpha")


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the leaderboard, with where its episodes are.

    Attributes:
        id: short, and the same wherever the entry is read from.
        row: as `leaderboard.json` has it.
        file: its trajectories, or the plans it is among, below the run's folder; empty where there are none.
        verified: replay agreed with all of it.
    """

    id: str
    row: Mapping[str, Any]
    file: str
    verified: bool


@dataclass(frozen=True)
class Run:
    """A run that has ended.

    Attributes:
        id: a digest of the manifest; the same plan has the same id.
        manifest: the content of `run.json`.
        document: the content of `leaderboard.json`.
        folder: where the run's trajectories lie; None where that is not known.
        entries: one a row of the document, in its order.
        results: opens the episodes anew, each with its entry's id.
    """

    id: str
    manifest: Mapping[str, Any]
    document: Mapping[str, Any]
    folder: Path | None
    entries: tuple[Entry, ...]
    results: Callable[[], Iterator[tuple[str, EpisodeResult]]]

    @cached_property
    def by_id(self) -> dict[str, Entry]:
        return {entry.id: entry for entry in self.entries}


def run_id(manifest: Mapping[str, Any]) -> str:
    """Names a run by what it runs."""
    return _digest(manifest)


def entry_id(row: Mapping[str, Any]) -> str:
    """Names an entry within its run: by agent, budget, kind of task, weight of the score and submission."""
    key = {name: row[name] for name in _NAMES_AN_ENTRY if name in row}
    if "submission" in row:
        key["submission"] = row["submission"]["name"]
    return _digest(key)


def condition(row: Mapping[str, Any]) -> str:
    """What an entry was played under, in words: its budget, or the kind of tasks and the weight of the score."""
    if "tasks" in row:
        return f"{row['tasks']} tasks, score weighs {row['alpha']:g}"
    return budget_label(row.get("budget"))


def _digest(document: Mapping[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(document, sort_keys=True).encode(), digest_size=8).hexdigest()


def read_run(folder: str | Path) -> Run:
    """A run from its folder.

    Raises:
        ConfigError: the folder holds no run that has ended.
        DataError: a file in it cannot be read.
    """
    place = Path(folder)
    manifest, document = (_read(place, name) for name in ("run.json", "leaderboard.json"))
    entries = tuple(entry_of(row, place) for row in document["rows"])
    if len({entry.id for entry in entries}) != len(entries):
        raise DataError(place / "leaderboard.json", "holds an entry twice")
    read = _plans if document.get("suite") == "opencatp" else _episodes
    return Run(run_id(manifest), manifest, document, place, entries, lambda: read(place, document, entries))


def _read(folder: Path, name: str) -> dict[str, Any]:
    path = folder / name
    if not path.is_file():
        ended = "has not ended; run the leaderboard again to finish it" if (folder / "run.json").is_file() else "holds no run"
        raise ConfigError("--run", f"{folder} {ended} (there is no {name})")
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise DataError(path, f"is no JSON ({error})") from error
    if not isinstance(document, dict) or (name == "leaderboard.json" and not isinstance(document.get("rows"), list)):
        raise DataError(path, "is not as a leaderboard run writes it")
    return document


def entry_of(row: Mapping[str, Any], folder: Path | None) -> Entry:
    """A row as an entry; its file is named where it lies in the folder."""
    agent, budget, below = str(row["agent"]), row.get("budget") or {}, ""
    if "submission" in row:
        name = row["submission"]["name"]
        agent, below = agent.removesuffix(f" ({name})"), f"submissions/{name}/"
    path = PLANS if "tasks" in row else f"{below}{FOLDER}/{file_name(agent, budget)}"
    there = folder is not None and (folder / path).is_file()
    return Entry(entry_id(row), row, path if there else "", row.get("verified") is True)


def _episodes(folder: Path, document: Mapping[str, Any], entries: tuple[Entry, ...]) -> Iterator[tuple[str, EpisodeResult]]:
    """The run's own episodes, as it recorded them, then those of submissions, from their trajectories."""
    known = {entry.id for entry in entries}
    path = folder / "episodes.jsonl"
    for number, line in enumerate(iter_lines(path), 1):
        try:
            result = EpisodeResult.from_json(line)
        except DataError as error:
            raise DataError(path, str(error), f"line {number}") from error
        found = entry_id({"agent": result.agent, "budget": dict(result.budget)})
        if found not in known:
            raise DataError(path, f"{plain(result.agent)} has no row in leaderboard.json", f"line {number}")
        yield found, result
    for entry in entries:
        if "submission" in entry.row and entry.file:
            yield from ((entry.id, result) for result in _submitted(folder / entry.file, entry))


def _submitted(path: Path, entry: Entry) -> Iterator[EpisodeResult]:
    """Episodes of a submission. Its file holds no optimum, so their regret is unknown."""
    header, trajectories = read_trajectories(path)
    try:
        world = parse_scenario(header.scenario, path).build()
        scale = world.alpha, world.max_price
    except CostGymError as error:
        raise DataError(path, f"its world cannot be built: {error}") from error
    for trajectory in trajectories:
        final = trajectory.final
        passed = final["strict" if entry.row.get("grading") == "strict" else "judged"] and final["exceeded"] is None
        yield EpisodeResult(
            agent=str(entry.row["agent"]),
            model=trajectory.model,
            env=header.env,
            task=trajectory.task,
            episode=trajectory.episode,
            seed=trajectory.seed,
            budget=entry.row.get("budget") or {},
            quality=float(quality_of_plan(1.0 if passed else 0.0, final["price"], *scale)),
            **_counts(trajectory),
            **final,
        )


def _counts(trajectory: Trajectory) -> dict[str, Any]:
    labels = sorted(str(call[1]) for call in trajectory.calls)
    wrong = {label: len(list(group)) for label, group in groupby(labels) if _ORIGIN_OF[label] is not Origin.NONE}
    origins = {name: sum(n for label, n in wrong.items() if _ORIGIN_OF[label].name.lower() == name) for name in ORIGINS}
    return {"errors": origins, "errors_by_status": wrong}


def _plans(folder: Path, document: Mapping[str, Any], entries: tuple[Entry, ...]) -> Iterator[tuple[str, EpisodeResult]]:
    """The plans of the suite `opencatp` as episodes: a plan that is none is the agent's error."""
    rows = {entry.id: entry.row for entry in entries}
    path = folder / PLANS
    for number, line in enumerate(iter_lines(path), 1):
        try:
            record = json.loads(line)
            found = entry_id({**{name: record[name] for name in ("agent", "tasks", "alpha")}, "budget": {}})
            row, tools = rows[found], len(record["plan"] or ()) // 2
            invalid = record["plan"] is None
            yield (
                found,
                EpisodeResult(
                    agent=record["agent"],
                    model=row["model"],
                    env=row["env"],
                    task=f"{record['tasks']} {record['task']}, sample {record['sample']}",
                    episode=record["episode"],
                    seed=int(document["seed"]),
                    budget={},
                    strict=record["score"] >= 0.5,
                    judged=record["score"] >= 0.5,
                    share=min(1.0, max(0.0, record["score"])),
                    price=record["price"],
                    seconds=record["seconds"],
                    tokens=record["tokens"],
                    calls=tools,
                    attempts=tools,
                    errors={"agent": int(invalid)},
                    errors_by_status={"invalid_plan": 1} if invalid else {},
                    quality=record["quality"],
                    regret=record["best"] - record["quality"],
                ),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(path, f"is no plan's record ({error})", f"line {number}") from error


def outcome(result: EpisodeResult, grading: str = "strict") -> str:
    """An episode in a word: `passed`, `failed`, `over budget` or `void`."""
    if result.void:
        return "void"
    if not result.within_budget:
        return "over budget"
    return "passed" if (result.strict if grading == "strict" else result.judged) else "failed"
