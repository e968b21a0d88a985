"""A leaderboard submission: a folder that anyone can check by replay.

`manifest.json` says who submits what, `trajectories/` holds every episode of every entry. `validate` believes none of the
figures: it plays each episode again in the world that the manifest names, compares every value, and works the rows out anew.
What replay cannot show is said in `trajectories.verify`: a submission is evidence of what was done, not of how the agent came
to do it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ....envs.registration import class_of
from ....simulators.errors import ConfigError, CostGymError, DataError, UnknownName
from ....simulators.version import __version__
from ...execution.engine import Engine, Local
from ...files import finished_folder, iter_lines, sole_writer, write_atomically
from ...metrics import summarise
from ...results import EpisodeResult
from ..board import publish
from ..conditions import condition_key, row_key
from ..run_config import RunConfig, read_run_config
from ..run_log import EPISODES, FOLDER, file_name
from .manifest import FORMAT, MANIFEST, Submission, check_files, read_manifest, schema, texts_of
from .replay import check_entries, digest_of

__all__ = ["Submission", "SubmissionVerdict", "add", "pack", "schema", "validate", "validate_run"]

SUBMISSIONS = "submissions"
"""Where a run keeps those that were added to it."""


@dataclass(frozen=True, slots=True)
class SubmissionVerdict:
    """What replay says of a submission.

    Attributes:
        folder: of the submission.
        manifest: what it says; None where that cannot be read.
        episodes: how many agreed.
        problems: what did not, in words, each with its place.
        rows: the leaderboard rows as replay derives them, one an entry.
        results: of the episodes that agreed, entry by entry.
    """

    folder: Path
    manifest: Submission | None
    episodes: int
    problems: tuple[str, ...]
    rows: tuple[dict[str, Any], ...]
    results: tuple[EpisodeResult, ...] = ()

    @property
    def verified(self) -> bool:
        return not self.problems and self.episodes > 0


def pack(
    run: str | Path,
    out: str | Path,
    name: str,
    contact: str,
    url: str = "",
    description: str = "",
    agents: Sequence[str] | None = None,
) -> Path:
    """Make a submission of a leaderboard run that has ended.

    Args:
        run: the run's folder.
        out: the submission's folder; must not exist.
        name, contact, url, description: of the submitter.
        agents: which of the run's agents; all by default.

    Raises:
        ConfigError: the run is none or has not ended, `out` exists, or an entry of the manifest is not as the schema wants it.
        UnknownName: the run has no such agent.
    """
    source = Path(run)
    config = read_run_config(source)
    for agent in agents or ():
        if agent not in config.agents:
            raise UnknownName("agent of the run", agent, config.agents)
    chosen = [agent for agent in config.agents if agents is None or agent in agents]
    about = {"name": name, "contact": contact, "url": url, "description": description}
    try:
        manifest = Submission.model_validate({**_document(source, config, chosen), **about})
    except ValidationError as error:
        raise ConfigError("submission", next(texts_of(error))) from None
    with finished_folder(Path(out)) as draft:
        (draft / FOLDER).mkdir()
        for file in manifest.files:
            shutil.copyfile(source / file.path, draft / file.path)
        write_atomically(draft / MANIFEST, json.dumps(manifest.model_dump(), indent=1, ensure_ascii=False) + "\n")
    return Path(out)


def _document(run: Path, config: RunConfig, agents: Sequence[str]) -> dict[str, Any]:
    """A run's manifest, but for who submits it."""
    if not (run / "leaderboard.json").is_file():
        raise ConfigError("--run", f"{run} has not ended; run the leaderboard again to finish it")
    board = json.loads((run / "leaderboard.json").read_text(encoding="utf-8"))
    files = []
    for agent, number, condition in config.entries():
        if agent not in agents:
            continue
        path = f"{FOLDER}/{file_name(agent, condition.budget, condition.settings)}"
        if not (run / path).is_file():
            raise ConfigError("--run", f"{run / path} is missing; run the leaderboard again to play its episodes")
        files.append({"path": path, "agent": agent, "condition": number, "digest": digest_of(run / path)})
    return {
        "format": FORMAT,
        "run": config.model_dump(mode="json"),
        "files": files,
        "rows": [row for row in board["rows"] if row["agent"] in agents and "submission" not in row],
    }


def validate_run(
    folder: str | Path,
    data: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    engine: Engine | None = None,
) -> SubmissionVerdict:
    """The same check for a leaderboard run as it lies there, its `episodes.jsonl` included.

    Raises:
        ConfigError: the folder holds no run, or one that has not ended.
    """
    place = Path(folder)
    config = read_run_config(place)
    about = {"name": "run", "contact": "run"}
    manifest = Submission.model_validate({**_document(place, config, config.agents), **about})
    return _validate(place, manifest, data, progress, engine, place / EPISODES)


def validate(
    folder: str | Path,
    data: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    engine: Engine | None = None,
) -> SubmissionVerdict:
    """Check a submission: its schema, its files, every episode by replay, and the rows it claims.

    Args:
        folder: the submission.
        data: folder of a ToolBench scenario.
        progress: called with the numbers of replayed and of all episodes.
        engine: where episodes are replayed; by default here. The verdict does not depend on it.

    Raises:
        DataError: there is no manifest.
        InfrastructureError: workers were lost again and again; nothing is said about the submission.
    """
    place = Path(folder)
    manifest, problems = read_manifest(place)
    if manifest is None:
        return SubmissionVerdict(place, None, 0, tuple(problems), ())
    return _validate(place, manifest, data, progress, engine, None)


def _validate(
    place: Path,
    manifest: Submission,
    data: str | None,
    progress: Callable[[int, int], None] | None,
    engine: Engine | None,
    episodes: Path | None,
) -> SubmissionVerdict:
    problems = _check_manifest(manifest)
    if problems:
        return SubmissionVerdict(place, manifest, 0, tuple(problems), ())
    run = manifest.run
    claimed = None if episodes is None else iter_lines(episodes)
    rows, kept, total = list[dict[str, Any]](), list[EpisodeResult](), manifest.episodes
    for entry in check_entries(place, manifest, data, engine or Local()):
        results = entry.results
        problems += [f"{entry.file.path}: {problem}" for problem in entry.problems]
        if claimed is not None:
            lines = list(islice(claimed, entry.episodes))
            problems += _check_results(lines, results)
        kept += results
        if progress is not None:
            progress(len(kept), total)
        if len(results) == entry.episodes:
            rows.append(summarise(results, run.grading, episodes=entry.episodes, seed=run.seed))
    if not problems:
        problems += _check_rows(manifest, rows)
    return SubmissionVerdict(place, manifest, len(kept), tuple(problems), tuple(rows), tuple(kept))


def _check_results(lines: Sequence[str], results: Sequence[EpisodeResult]) -> Iterator[str]:
    """Compare a run's results with those that replay derives."""
    for line, result in zip(lines, results, strict=False):
        if line != result.to_json():
            yield f"episodes.jsonl, {result.agent} episode {result.episode}: replay says {result.to_json()[:200]}"
            return


def add(
    leaderboard: str | Path,
    submission: str | Path,
    data: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    engine: Engine | None = None,
) -> list[dict[str, Any]]:
    """Add a submission's entries to a leaderboard run, once replay agrees with all of it.

    Its rows carry `"verified": true` and `"submission"` (who, and where to ask); their figures are those that replay derived.
    The submission is kept below the run's folder, so that anyone can check it again, and a later `run` shows it too. A
    submission of the same name is replaced.

    Args:
        leaderboard: folder of a run that has ended.
        submission: the submission's folder.
        data: folder of a ToolBench scenario.
        progress: called with the numbers of replayed and of all episodes.
        engine: where episodes are replayed; by default here. The rows do not depend on it.

    Returns:
        The rows that were added.

    Raises:
        ConfigError: the submission was not played as the leaderboard is (world, budgets, seed, ...); nothing is replayed.
        DataError: replay does not agree; the first problems are named. Nothing is added.
    """
    board, source = Path(leaderboard), Path(submission)
    config = read_run_config(board)
    manifest, problems = read_manifest(source)
    if manifest is None:
        raise DataError(source / MANIFEST, problems[0])
    if not (board / "leaderboard.json").is_file():
        raise ConfigError("--out", f"{board} has not ended; run the leaderboard again to finish it")
    different = _differences(config, manifest.run)
    if different:
        raise ConfigError("--add", f"{source} was not played as {board} is; different: {', '.join(different)}")
    verdict = validate(source, data, progress, engine)
    if not verdict.verified:
        more = f" (and {len(verdict.problems) - 3} more)" if len(verdict.problems) > 3 else ""
        raise DataError(source, "; ".join(verdict.problems[:3]) + more)
    about = {"name": manifest.name, "contact": manifest.contact, "url": manifest.url}
    rows = [
        {**row, "agent": f"{row['agent']} ({manifest.name})", "verified": True, "submission": about} for row in verdict.rows
    ]
    with sole_writer(board):
        kept = board / SUBMISSIONS / manifest.name
        shutil.rmtree(kept, ignore_errors=True)
        with finished_folder(kept) as draft:
            (draft / FOLDER).mkdir()
            for path in (MANIFEST, *(file.path for file in manifest.files)):
                shutil.copyfile(source / path, draft / path)
            results = (replace(result, agent=f"{result.agent} ({manifest.name})") for result in verdict.results)
            write_atomically(draft / EPISODES, "".join(f"{result.to_json()}\n" for result in results))
            write_atomically(draft / "rows.json", json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
        publish(board, json.loads((board / "leaderboard.json").read_text(encoding="utf-8")))
    return rows


def _check_manifest(manifest: Submission) -> list[str]:
    run = manifest.run
    if run.version != __version__:
        return [f"{MANIFEST}, run.version: played with costgym {run.version}, this is {__version__}"]
    try:
        digest = class_of(run.env).world_digest(run.scenario)
    except CostGymError as error:
        return [f"{MANIFEST}, run.scenario: {error}"]
    if digest != run.digest:
        return [f"{MANIFEST}, run.digest: the world's is {digest}, the manifest says {run.digest}"]
    return check_files(manifest)


def _check_rows(manifest: Submission, rows: Sequence[dict[str, Any]]) -> list[str]:
    document = {"conditions": [condition.document() for condition in manifest.run.conditions]}

    def key(row: dict[str, Any]) -> str:
        return f"{row.get('agent')} under {row_key(row, document)}"

    claimed = {key(row): row for row in manifest.rows}
    derived = {key(row): row for row in json.loads(json.dumps(rows))}
    if len(claimed) != len(manifest.rows) or claimed.keys() != derived.keys():
        return [f"{MANIFEST}, rows: expected one row for each of the {len(rows)} files"]
    problems = []
    for place, row in derived.items():
        for name in sorted(row.keys() | claimed[place].keys()):
            if row.get(name) != claimed[place].get(name):
                said = claimed[place].get(name)
                problems.append(f"{MANIFEST}, rows, {place}: {name}: replay says {row.get(name)!r:.120}, the row {said!r:.120}")
    return problems


def _differences(ours: RunConfig, theirs: RunConfig) -> list[str]:
    """Fields in which another run was not played as this one is."""
    names = ("version", "suite", "env", "digest", "split", "grading", "seed", "ranked_by", "settings")
    different = [name for name in names if getattr(ours, name) != getattr(theirs, name)]
    wanted = {condition_key(each.budget, each.settings): each.episodes for each in ours.conditions}
    found = {condition_key(each.budget, each.settings): each.episodes for each in theirs.conditions}
    if not found.items() <= wanted.items():
        different.append("conditions")
    return different
