"""A leaderboard submission: a folder that anyone can check by replay.

`manifest.json` says who submits what, `trajectories/` holds every episode of every entry. `validate` believes none of the
figures: it plays each episode again in the world that the manifest names, compares every value, and works the rows out anew.
What replay cannot show is said in `verify`; a submission is evidence of what was done, not of how the agent came to do it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ....simulators.errors import ConfigError, CostGymError, DataError, UnknownName
from ....simulators.ledger import Budget
from ....simulators.scenario import parse_scenario
from ....simulators.version import __version__
from ...execution.engine import Engine, Local
from ...files import finished_folder, iter_lines, sole_writer, write_atomically
from ...metrics import EpisodeResult, summarise
from ..board import RunConfig, publish, read_run_config
from ..run_log import FOLDER, file_name
from .manifest import FORMAT, MANIFEST, Submission, read_manifest, schema, texts_of
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
    """

    folder: Path
    manifest: Submission | None
    episodes: int
    problems: tuple[str, ...]
    rows: tuple[dict[str, Any], ...]

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
    plan = read_run_config(source)
    for agent in agents or ():
        if agent not in plan.agents:
            raise UnknownName("agent of the run", agent, plan.agents)
    chosen = [agent for agent in plan.agents if agents is None or agent in agents]
    about = {"name": name, "contact": contact, "url": url, "description": description}
    try:
        manifest = Submission.model_validate({**_document(source, plan, chosen), **about})
    except ValidationError as error:
        raise ConfigError("submission", next(texts_of(error))) from None
    with finished_folder(Path(out)) as draft:
        (draft / FOLDER).mkdir()
        for file in manifest.files:
            shutil.copyfile(source / file.path, draft / file.path)
        write_atomically(draft / MANIFEST, json.dumps(manifest.model_dump(), indent=1, ensure_ascii=False) + "\n")
    return Path(out)


def _document(run: Path, plan: RunConfig, agents: Sequence[str]) -> dict[str, Any]:
    """A run's manifest, but for who submits it."""
    if not (run / "leaderboard.json").is_file():
        raise ConfigError("--run", f"{run} has not ended; run the leaderboard again to finish it")
    board = json.loads((run / "leaderboard.json").read_text(encoding="utf-8"))
    files = []
    for agent in agents:
        for budget in plan.budgets:
            path = f"{FOLDER}/{file_name(agent, budget)}"
            if not (run / path).is_file():
                raise ConfigError("--run", f"{run / path} is missing; run the leaderboard again to play its episodes")
            files.append({"path": path, "agent": agent, "budget": budget, "digest": digest_of(run / path)})
    return {
        "format": FORMAT,
        "version": plan.version,
        "model": plan.model,
        "suite": plan.suite,
        "scenario": plan.scenario.model_dump(mode="json"),
        "digest": plan.scenario.digest,
        "split": plan.split,
        "grading": plan.grading,
        "seed": plan.seed,
        "episodes": plan.episodes,
        "files": files,
        "weights": {agent: digest for agent, digest in plan.weights.items() if agent in agents},
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
    plan = read_run_config(place)
    about = {"name": "run", "contact": "run"}
    manifest = Submission.model_validate({**_document(place, plan, plan.agents), **about})
    return _validate(place, manifest, data, progress, engine, place / "episodes.jsonl")


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
    claimed = None if episodes is None else iter_lines(episodes)
    good, rows, total = 0, [], manifest.episodes * len(manifest.files)
    for entry in check_entries(place, manifest, data, engine or Local()):
        results = entry.results
        problems += [f"{entry.file.path}: {problem}" for problem in entry.problems]
        if claimed is not None:
            lines = list(islice(claimed, manifest.episodes))
            problems += _check_results(lines, results)
        good += len(results)
        if progress is not None:
            progress(good, total)
        if len(results) == manifest.episodes:
            rows.append(summarise(results, manifest.grading, episodes=manifest.episodes, seed=manifest.seed))
    if not problems:
        problems += _check_rows(manifest, rows)
    return SubmissionVerdict(place, manifest, good, tuple(problems), tuple(rows))


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
    plan = read_run_config(board)
    manifest, problems = read_manifest(source)
    if manifest is None:
        raise DataError(source / MANIFEST, problems[0])
    if not (board / "leaderboard.json").is_file():
        raise ConfigError("--out", f"{board} has not ended; run the leaderboard again to finish it")
    different = _differences(plan, manifest)
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
            write_atomically(draft / "rows.json", json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
        publish(board, json.loads((board / "leaderboard.json").read_text(encoding="utf-8")))
    return rows


def _check_manifest(manifest: Submission) -> list[str]:
    if manifest.version != __version__:
        return [f"{MANIFEST}, version: played with costgym {manifest.version}, this is {__version__}"]
    try:
        digest = parse_scenario(manifest.scenario, MANIFEST).digest
        budgets = {(file.agent, file_name(file.agent, Budget.from_mapping(file.budget).as_dict())) for file in manifest.files}
    except CostGymError as error:
        return [str(error)]
    if digest != manifest.digest:
        return [f"{MANIFEST}, digest: the scenario's is {digest}, the manifest says {manifest.digest}"]
    if len(budgets) != len(manifest.files) or len({file.path for file in manifest.files}) != len(manifest.files):
        return [f"{MANIFEST}, files: an entry or a file stands there twice"]
    return []


def _check_rows(manifest: Submission, rows: Sequence[dict[str, Any]]) -> list[str]:
    claimed = {_entry(row): row for row in manifest.rows}
    derived = {_entry(row): row for row in json.loads(json.dumps(rows))}
    if len(claimed) != len(manifest.rows) or claimed.keys() != derived.keys():
        return [f"{MANIFEST}, rows: expected one row for each of the {len(rows)} files"]
    problems = []
    for key, row in derived.items():
        for name in sorted(row.keys() | claimed[key].keys()):
            if row.get(name) != claimed[key].get(name):
                said = claimed[key].get(name)
                problems.append(f"{MANIFEST}, rows, {key}: {name}: replay says {row.get(name)!r:.120}, the row {said!r:.120}")
    return problems


def _entry(row: dict[str, Any]) -> str:
    return f"{row.get('agent')} under {json.dumps(row.get('budget'), sort_keys=True)}"


def _differences(plan: RunConfig, manifest: Submission) -> list[str]:
    budgets = {json.dumps(dict(budget), sort_keys=True) for budget in plan.budgets}
    pairs = {
        "version": (plan.version, manifest.version),
        "suite": (plan.suite, manifest.suite),
        "scenario": (plan.scenario.digest, manifest.digest),
        "split": (plan.split, manifest.split),
        "grading": (plan.grading, manifest.grading),
        "seed": (plan.seed, manifest.seed),
        "episodes": (plan.episodes, manifest.episodes),
        "budgets": (True, all(json.dumps(file.budget, sort_keys=True) in budgets for file in manifest.files)),
    }
    return [name for name, (ours, theirs) in pairs.items() if ours != theirs]
