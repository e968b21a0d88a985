"""Create, verify and add leaderboard submissions, which are folders that anyone can check by replay.

`manifest.json` names the submitter and the entries; `trajectories/` contains every episode of every entry. `validate` does not
trust any value: it replays each episode in the manifest's scenario, compares every value, and recomputes the rows. The limits
of replay are documented in `trajectories.verify`: it proves the outcome of the actions, not how the agent chose them.
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
"""Folder, within a run, of the submissions that were added to it."""


@dataclass(frozen=True, slots=True)
class SubmissionVerdict:
    """The result of verifying a submission by replay.

    Attributes:
        folder: folder of the submission.
        manifest: the manifest; None if it cannot be read.
        episodes: number of episodes that agree with replay.
        problems: problems found, as text with their position.
        rows: leaderboard rows derived by replay, one per entry.
        results: results of the episodes that agree, entry by entry.
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
    """Create a submission from a finished leaderboard run.

    Args:
        run: folder of the run.
        out: folder of the submission; must not exist.
        name, contact, url, description: information about the submitter.
        agents: agents of the run to include; all by default.

    Raises:
        ConfigError: the folder holds no finished run, `out` exists, or a field of the manifest does not fit the schema.
        UnknownName: an agent is not part of the run.
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
    """Build a run's manifest without the information about the submitter."""
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
    """Check a leaderboard run by replay as `validate` does, including its `episodes.jsonl`.

    Raises:
        ConfigError: the folder holds no finished run.
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
    """Check a submission: its schema, its files, every episode by replay, and the claimed rows.

    Args:
        folder: folder of the submission.
        data: folder of a ToolBench scenario.
        progress: called with the number of replayed episodes and the number of all episodes.
        engine: engine that replays the episodes; by default this process. The verdict does not depend on it.

    Raises:
        DataError: the folder has no manifest.
        InfrastructureError: workers were lost repeatedly, so there is no verdict.
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
    """Compare a run's results with those derived by replay, and yield the differences as text."""
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
    """Verify a submission by replay and add its entries to a leaderboard run.

    The added rows have the fields `"verified": true` and `"submission"` (submitter and contact); their values are derived by
    replay. The submission is copied into the run's folder, so that it can be checked again and a later `run` includes it. A
    submission with the same name is replaced.

    Args:
        leaderboard: folder of a finished run.
        submission: folder of the submission.
        data: folder of a ToolBench scenario.
        progress: called with the number of replayed episodes and the number of all episodes.
        engine: engine that replays the episodes; by default this process. The rows do not depend on it.

    Returns:
        The added rows.

    Raises:
        ConfigError: the submission's scenario, budgets, seed or another setting differs from the leaderboard's; raised before
            replay.
        DataError: the submission differs from replay; the message lists the first problems. Nothing is added.
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
        raise ConfigError("--add", f"{source} and {board} have different settings: {', '.join(different)}")
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
        return [f"{MANIFEST}, run.digest: the scenario's is {digest}, the manifest's is {run.digest}"]
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
    """Return the fields in which the configurations of two runs differ."""
    names = ("version", "suite", "env", "digest", "split", "grading", "seed", "ranked_by", "settings")
    different = [name for name in names if getattr(ours, name) != getattr(theirs, name)]
    wanted = {condition_key(each.budget, each.settings): each.episodes for each in ours.conditions}
    found = {condition_key(each.budget, each.settings): each.episodes for each in theirs.conditions}
    if not found.items() <= wanted.items():
        different.append("conditions")
    return different
