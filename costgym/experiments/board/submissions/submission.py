"""Create, verify and add leaderboard submissions, which are folders that anyone can check by replay.

`manifest.json` says who submits what, `trajectories/` holds every episode of every entry. `validation` says how it is checked.
Entries in `recorded/` come with the package, of agents that need an extra such as torch, or minutes; docs/smallmodel.md and
`benchmarks/zoo.py record` made them.
"""

import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from costgym.experiments.board.board import SUBMISSIONS, Addition, PageMaker, publish
from costgym.experiments.board.judged import without_verdicts
from costgym.experiments.board.rows import BY_EPISODE
from costgym.experiments.board.run_config import RowConfig, RunConfig, copied_run, read_run_config, world_of
from costgym.experiments.board.run_log import EPISODES, read_episodes, trajectory_path
from costgym.experiments.board.store.runs import as_written, read_ended
from costgym.experiments.board.submissions.differences import unexpected_files
from costgym.experiments.board.submissions.informed import Informed, informed_of
from costgym.experiments.board.submissions.manifest import (
    CODE,
    FORMAT,
    MANIFEST,
    RECORDED,
    Submission,
    manifest_text,
    name_key,
    read_manifest,
    texts_of,
)
from costgym.experiments.board.submissions.replay import Voids, digest_of, void_episodes
from costgym.experiments.board.submissions.validation import (
    SubmissionVerdict,
    is_privileged,
    rows_on_board,
    validate,
    validate_copy,
    validate_run,
)
from costgym.experiments.play.execution.engine import Engine
from costgym.experiments.play.trajectories.format import check_header, read_trajectories
from costgym.simulators import same_world
from costgym.simulators.errors import ConfigError, DataError, check_known
from costgym.simulators.files import finish_change, finished_folder, has_tail, private_copy, snapshot, sole_writer

__all__ = ["Submission", "SubmissionVerdict", "add", "pack", "validate", "validate_run"]


def pack(
    run: str | Path,
    out: str | Path,
    name: str,
    contact: str,
    agents: Sequence[str] | None = None,
    files: Path | None = None,
    **about: str,
) -> Path:
    """Make a submission of a leaderboard run that has ended.

    Args:
        out: the submission's folder; must not exist.
        agents: which of the run's agents; all by default, but for those that read the world and are never ranked.
        files: folder with the agents' own files, which a rerun needs; they are copied.
        about: further fields of the manifest: `url`, `description`, `organisation`, `date`, `code`, `commit`, `cost`,
            `model`.

    Raises:
        ConfigError: the folder holds no run that has ended, `out` exists, an agent reads the world, or a field of the manifest
            does not match the schema.
        DataError: a file of trajectories is not the whole record of its row.
        UnknownName: the run has no such agent.
    """
    with copied_run(Path(run)) as copy:
        return _pack(copy, Path(out), agents, files, {"name": name, "contact": contact, **about})


def _pack(source: Path, out: Path, agents: Sequence[str] | None, code: Path | None, about: dict[str, str]) -> Path:
    config = read_run_config(source)
    for agent in agents or ():
        check_known("agent of the run", agent, config.agents)
    document = read_ended(source)
    wanted = [row for row in config.rows() if agents is None or row.agent in agents]
    rows = [row for row in wanted if not is_privileged(row)]
    if (agents is not None and len(rows) < len(wanted)) or not rows:
        bound = next(row.agent for row in wanted if is_privileged(row))
        raise ConfigError("--agents", f"{bound} reads the world: it is a bound and cannot be submitted")
    files = []
    voids, _ = void_episodes(source, config, None)
    for row in rows:
        path = trajectory_path(row)
        if not (source / path).is_file():
            raise ConfigError("--run", f"{source / path} is missing; run the leaderboard again to play its episodes")
        void = voids.get(row.key, {})
        _expect_whole(source / path, row, void)
        entry: dict[str, Any] = {"path": path, "track": row.track.name, "agent": row.agent, "condition": row.number}
        reasons = {index: result.void_reason for index, result in sorted(void.items())}
        files.append({**entry, "digest": digest_of(source / path), "void": reasons})
    packed = {(row.track.name, row.agent) for row in rows}
    packed_rows = [row for row in document["rows"] if "submission" not in row and (row.get("track"), row["agent"]) in packed]
    claimed = [{name: value for name, value in without_verdicts(row).items() if name != BY_EPISODE} for row in packed_rows]
    body = {"format": FORMAT, "run": config.model_dump(mode="json"), "files": files, "rows": claimed}
    try:
        manifest = Submission.model_validate({**body, **about})
    except ValidationError as error:
        raise ConfigError("submission", next(texts_of(error))) from None
    with finished_folder(out) as draft:
        _copy(source, manifest, draft)
        if code is not None:
            snapshot(code, draft / CODE)
            if problems := unexpected_files(draft, [f"{CODE}/"], CODE):
                raise ConfigError("--files", problems[0].removeprefix(f"{CODE}/"))
    return out


def _expect_whole(path: Path, row: RowConfig, void: Voids) -> None:
    """Refuse a file that is not the record of a row's episodes, before it is replayed by whoever gets it."""
    header, episodes = read_trajectories(path)
    problems, count = check_header(header), 0
    wanted = [index for index in range(row.condition.episodes) if index not in void]
    for count, episode in enumerate(episodes, 1):
        if (episode.agent, [episode.episode]) != (row.agent, wanted[count - 1 : count]):
            problems.append(f"line {count + 1} is episode {episode.episode} of {episode.agent!r:.80}")
            break
    else:
        if count != len(wanted) or has_tail(path):
            problems.append(f"{count} whole episodes; expected {len(wanted)} and nothing after them")
    if problems:
        raise DataError(path, f"is not the record of {row.agent}: {problems[0]}; see `costgym verify`, or play the run again")


def add(
    leaderboard: str | Path,
    submission: str | Path,
    data: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    engine: Engine | None = None,
    pages: PageMaker | None = None,
) -> list[dict[str, Any]]:
    """Verify a submission by replay and add its entries to an ended leaderboard run; returns the added rows.

    Their figures are those that replay derived in the leaderboard's own world, read from `data` where it lies elsewhere now and
    never from the submitter's folder. The submission is kept below the run's folder, so that anyone can check it again; one of
    the same name and contact is replaced. Files, table and page change together or not at all. Raises ConfigError if a setting
    differs from the leaderboard's or the name is somebody else's, DataError if the submission differs from replay.
    """
    board = Path(leaderboard)
    with copied_run(board, ("run.json", "leaderboard.json")) as copy:
        read_ended(copy)
    with addition_of(board, Path(submission), data, progress, engine) as added:
        put(board, [added], pages)
    return added.rows


@contextmanager
def addition_of(
    board: Path,
    source: Path,
    data: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    engine: Engine | None = None,
    informed: Informed | None = None,
) -> Iterator[Addition]:
    """Verify a private copy of a submission for a leaderboard run, and give what would be added to it; arguments and errors as
    in `add`, and `informed` as in `validation.validate`."""
    with private_copy(source) as entry:
        yield _verified(board, entry, data, progress, engine, informed)


def _verified(
    board: Path,
    source: Path,
    data: str | None,
    progress: Callable[[int, int], None] | None,
    engine: Engine | None,
    informed: Informed | None,
) -> Addition:
    config = read_run_config(board)
    manifest, problems = read_manifest(source)
    if manifest is None:
        raise DataError(source / MANIFEST, problems[0])
    check_name(board, manifest.name, manifest.contact)
    if different := differences(config, manifest.run):
        raise ConfigError("--add", f"{source} was not played like {board}; different: {', '.join(different)}")
    verdict = validate_copy(source, data, progress, engine, config, informed)
    if not verdict.verified:
        more = f" (and {len(verdict.problems) - 3} more)" if len(verdict.problems) > 3 else ""
        raise DataError(source, "; ".join(verdict.problems[:3]) + more)
    results = [replace(result, agent=f"{result.agent} ({manifest.name})") for result in verdict.results]

    def fill(folder: Path) -> None:
        _copy(source, manifest, folder)
        (folder / EPISODES).write_text("".join(f"{result.to_json()}\n" for result in results), encoding="utf-8")

    return Addition(manifest.name, manifest.contact, rows_on_board(manifest, verdict), fill)


def put(board: Path, added: Sequence[Addition], pages: PageMaker | None) -> None:
    """Put verified submissions on a leaderboard in one step, and write its pages."""
    with sole_writer(board), as_written(board):
        finish_change(board)
        for entry in added:
            check_name(board, entry.name, entry.contact)  # another process may have added one since
        publish(board, read_ended(board), added, pages)


def check_name(board: Path, name: str, contact: str) -> None:
    """Refuse a submission that would take the place of somebody else's, or look as if it did; a contact may replace its own.
    Raises ConfigError if the leaderboard has an entry of this name, of another contact or one that cannot be read, or of a name
    that differs in the case of letters or in spaces alone."""
    folders = board / SUBMISSIONS
    present = next((path for path in sorted(folders.glob("*")) if name_key(path.name) == name_key(name)), None)
    if present is None:
        return
    if present.name != name:
        problem = f"{name!r} differs from the entry {present.name!r} on {board} in the case of letters or in spaces alone"
        raise ConfigError("--add", f"{problem}; pack it under another --name, or under {present.name!r} to replace that entry")
    theirs, _ = read_manifest(present) if (present / MANIFEST).is_file() else (None, [])
    if theirs is None or theirs.contact != contact:
        whose = f"an entry of {theirs.contact}" if theirs is not None else "an entry that cannot be read"
        raise ConfigError(
            "--add",
            f"{name!r} is {whose} on {board}, and this one is of {contact}; pack it under another --name, or "
            f"give the same --contact if the entry is yours. Whoever keeps the leaderboard can remove {present}",
        )


def _copy(source: Path, manifest: Submission, folder: Path) -> None:
    """A submission's own files, into an empty folder."""
    for file in manifest.files:
        (folder / file.path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / file.path, folder / file.path)
    (folder / MANIFEST).write_text(manifest_text(manifest), encoding="utf-8")


def differences(ours: RunConfig, theirs: RunConfig) -> list[str]:
    """Fields in which another run was not played as this one is; it may have fewer tracks and conditions."""
    different = [] if same_world(theirs.version) else ["version"]
    different += [name for name in ("suite", "grading", "seed") if getattr(ours, name) != getattr(theirs, name)]
    tracks = {track.name: track for track in ours.tracks}
    for track in theirs.tracks:
        track_of_board = tracks.get(track.name)
        if track_of_board is None:
            different.append(f"track {track.name}")
            continue
        fields = ("env", "split", "seeds", "ranked_by")
        different += [name for name in fields if getattr(track_of_board, name) != getattr(track, name)]
        if not track_of_board.in_world_of(track):
            different.append("digest")
        if world_of(track_of_board.scenario) != world_of(track.scenario):
            different.append("scenario")
        if track_of_board.portable_settings != track.portable_settings:
            different.append("settings")
        wanted = {condition.key: condition.episodes for condition in track_of_board.conditions}
        if not {condition.key: condition.episodes for condition in track.conditions}.items() <= wanted.items():
            different.append("conditions")
    return list(dict.fromkeys(different))


def shipped_entries(config: RunConfig, folder: Path = RECORDED) -> list[Path]:
    """The recorded entries that were played as a run is, of agents that the run did not play itself."""
    entries = []
    for entry in sorted(folder.iterdir()) if folder.is_dir() else []:
        manifest, problems = read_manifest(entry) if (entry / "manifest.json").is_file() else (None, [])
        if manifest is None or problems or differences(config, manifest.run):
            continue
        # with a real model, an agent is another one than that of the same name with the run's model
        played = set(config.agents) if manifest.run.model in ("simulated", config.model) else set()
        if not {file.agent for file in manifest.files} & played:
            entries.append(entry)
    return entries


def add_shipped(
    board: Path, engine: Engine | None = None, folder: Path = RECORDED, pages: PageMaker | None = None
) -> list[str]:
    """Replay the recorded entries that fit a run that has ended, show them with it and write its pages; returns the agents'
    names. An entry that replay refuses, since the world has changed after it was recorded, is left out with a warning."""
    config = read_run_config(board)
    entries = shipped_entries(config, folder)
    informed = informed_of(config, read_episodes(board)) if entries else None
    additions = []
    with ExitStack() as copies:
        for entry in entries:
            try:
                additions.append(copies.enter_context(addition_of(board, entry, engine=engine, informed=informed)))
            except (ConfigError, DataError) as error:
                problem = f"the recorded entry {entry.name!r} is not shown because it cannot be added: {error}"
                warnings.warn(problem, stacklevel=2)
        put(board, additions, pages)
    return [str(row["agent"]) for added in additions for row in added.rows]
