"""Verify runs and submissions from their recorded actions alone; no other figure in their files is trusted.

Every episode is replayed from its actions. Results, rows and `leaderboard.json` are regenerated and compared with the files
byte for byte; what is extra, missing, reordered or edited is named. `trajectories.verify` says what replay cannot show.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from costgym.agents.base import view_of
from costgym.agents.custom import is_custom
from costgym.agents.models.simulated import SIMULATED
from costgym.agents.registry import is_trained
from costgym.envs.base import base_env
from costgym.envs.registration import class_of
from costgym.experiments.board.board import ROWS, SUBMISSIONS, experience_of, summarise_run, with_submissions
from costgym.experiments.board.conditions import condition_key, grouped, row_key, row_of
from costgym.experiments.board.judged import VERDICTS
from costgym.experiments.board.run_config import (
    FORMAT,
    RowConfig,
    RunConfig,
    copied_run,
    entry_of,
    read_run_config,
    world_of,
)
from costgym.experiments.board.run_log import EPISODES, trajectory_path
from costgym.experiments.board.submissions.alarms import Evidence, InformedGain, Played, alarms, by_row, informed_gain
from costgym.experiments.board.submissions.alarms import total as total_of
from costgym.experiments.board.submissions.differences import (
    check_rows,
    compare_documents,
    compare_lines,
    text_of,
    unexpected_files,
)
from costgym.experiments.board.submissions.informed import Informed, informed_of, play_informed
from costgym.experiments.board.submissions.manifest import (
    CODE,
    MANIFEST,
    SIGNATURE,
    Submission,
    is_shipped,
    manifest_text,
    read_manifest,
)
from costgym.experiments.board.submissions.replay import RecordedRow, check_entries, void_episodes, voids_of_file
from costgym.experiments.board.suites import ALL_VIEWS, SUITES
from costgym.experiments.board.tracks import TRACKS
from costgym.experiments.play.execution.engine import Engine, Local
from costgym.experiments.play.judging.verdicts import Verdicts
from costgym.experiments.play.results import EpisodeResult
from costgym.experiments.play.trajectories.format import relocated
from costgym.experiments.play.trajectories.verify import BROKEN, NOT_AS_WRITTEN
from costgym.simulators import __version__, same_world
from costgym.simulators.errors import ConfigError, CostGymError, UnknownName
from costgym.simulators.files import json_text, private_copy

REPLAYED = "replayed"
"""What `verified` says of a row whose every figure follows from recorded actions."""
VOID = ("void_episodes", "void_reasons")
Progress = Callable[[int, int], None]
_PAGES = ("index.html", "episodes/")  # made from the data, and never read; so are the pages of a run's tracks
_OF_A_RUN = ("run.json", "leaderboard.json", "leaderboard.csv", VERDICTS, EPISODES)
_OF_A_SUBMISSION = (MANIFEST, SIGNATURE, ROWS, EPISODES, f"{CODE}/")
"""Files besides the trajectories. Those that a leaderboard adds to a submission are compared where it keeps them."""


@dataclass(frozen=True, slots=True)
class SubmissionVerdict:
    """The verdict of replay on a submission.

    Attributes:
        folder: of the submission.
        manifest: what it says; None where that cannot be read, or for a run.
        episodes: how many agreed.
        problems: what did not, in words, each with its place.
        rows: the leaderboard rows as replay derives them, in the order of the leaderboard.
        played: the episodes that agreed, entry by entry, with what they show of their agents.
        alarms: that ring, in sentences, by the row's place in `rows`.
    """

    folder: Path
    manifest: Submission | None
    episodes: int
    problems: tuple[str, ...]
    rows: tuple[dict[str, Any], ...]
    played: tuple[Played, ...] = ()
    alarms: tuple[tuple[str, ...], ...] = ()

    @property
    def verified(self) -> bool:
        return not self.problems and self.episodes > 0

    @property
    def results(self) -> list[EpisodeResult]:
        """The results of the episodes that agreed."""
        return [episode.result for episode in self.played]


def is_privileged(row: RowConfig) -> bool:
    """The row's agent reads the world: it is a bound, without a rank, and cannot be handed in."""
    with suppress(UnknownName):
        return not is_custom(row.agent) and entry_of(row.agent, row.track.name).privileged
    return False


def validate(
    folder: str | Path, data: str | None = None, engine: Engine | None = None, alarmed: bool = True
) -> SubmissionVerdict:
    """Check a submission: its schema, its files, every episode by replay, the rows it claims, and which alarms they ring.

    Raises:
        InfrastructureError: workers were lost again and again; nothing is said about the submission.
    """
    with private_copy(Path(folder)) as copy:
        return _of_folder(validate_copy(copy, data, engine=engine, alarmed=alarmed), Path(folder))


def validate_copy(
    folder: Path,
    data: str | None = None,
    progress: Progress | None = None,
    engine: Engine | None = None,
    board: RunConfig | None = None,
    informed: Informed | None = None,
    alarmed: bool = True,
) -> SubmissionVerdict:
    """`validate` of a folder that nobody else writes in and that holds plain files alone.

    Args:
        board: the run that it shall be added to; its worlds are what episodes are replayed in, not those of the submission.
        informed: what the informed policy did on that board, so that it need not play there again.
        alarmed: also say which alarms its rows ring, for which the informed policy plays too.
    """
    manifest, problems = read_manifest(folder)
    if manifest is None:
        return SubmissionVerdict(folder, None, 0, tuple(problems), ())
    run = manifest.run
    judged = run if board is None else _in_worlds_of(run, board)
    problems = problems or [f"{MANIFEST}, run.{problem}" for problem in _check_config(judged, data)]
    bounds = [file.agent for file in manifest.files if not problems and is_privileged(manifest.row_of(file))]
    if bounds:
        problems = [f"{MANIFEST}, files: {bounds[0]} reads the world: it is a bound and cannot be submitted"]
    if problems:
        return SubmissionVerdict(folder, manifest, 0, tuple(problems), ())
    rows = []
    for file in manifest.files:
        row = manifest.row_of(file)
        if board is not None:
            same = (item for item in board.rows() if (item.track.name, item.condition) == (row.track.name, row.condition))
            on_board = next(same, None)
            if on_board is None:
                problem = (
                    f"{MANIFEST}, run.tracks: {row.track.name}, {row.condition.document()} is not played on this leaderboard"
                )
                return SubmissionVerdict(folder, manifest, 0, (problem,), ())
            row = on_board._replace(agent=row.agent)
        row_data = row.track.data
        where = None if row_data is None else data or (row_data if board is not None else None)
        void = voids_of_file(folder / file.path, row, run.seed, file.void, where)
        rows.append(RecordedRow(file.path, row, file.digest, where, void))
    played, problems = replay_rows(folder, run, rows, progress, engine)
    results = [item.result for item in played]
    derived = [row for row in summarise_run(run, results)["rows"] if not row["missing_episodes"]]
    if not problems:
        problems += check_rows(manifest, derived)
        problems += unexpected_files(folder, {*(file.path for file in manifest.files), *_OF_A_SUBMISSION})
    if not problems and (folder / MANIFEST).read_text(encoding="utf-8") != manifest_text(manifest):
        problems.append(f"{MANIFEST}: {NOT_AS_WRITTEN}")
    if not alarmed:
        return SubmissionVerdict(folder, manifest, len(results), tuple(problems), tuple(derived), tuple(played))
    evidence = {key: total_of(item.evidence for item in of_row) for key, of_row in by_row(played).items()}
    known = informed if board is not None and board.seed == run.seed else None
    gains = {} if problems else _informed_gains(rows, run.seed, results, known)
    keyed = zip(derived, row_keys(run, derived), strict=True)
    rung = tuple(tuple(alarms(evidence.get(key, Evidence()), row["track"], gains.get(key))) for row, key in keyed)
    return SubmissionVerdict(folder, manifest, len(results), tuple(problems), tuple(derived), tuple(played), rung)


def _informed_gains(
    rows: Sequence[RecordedRow], seed: int, results: Sequence[EpisodeResult], known: Informed | None
) -> dict[tuple[str, str], InformedGain]:
    """The rows beside the informed policy, which plays each condition once; by agent and condition, as `row_keys`."""
    results_by_row = grouped(results, row_of)
    informed: dict[str, Mapping[int, EpisodeResult]] = {}
    by_row = {}
    for row in rows:
        of, condition = row.row.track, row.row.condition
        key = condition_key(condition.budget, condition.settings, of.name)
        if key not in informed:
            informed[key] = play_informed(of, condition, seed, row.data, known)
        by_row[row.row.agent, key] = informed_gain(results_by_row.get(row.row.identity, ()), informed[key], of.seeds)
    return by_row


def validate_run(folder: str | Path, data: str | None = None, engine: Engine | None = None) -> SubmissionVerdict:
    """Check the folder of a leaderboard run: its data files, and the submissions that were added to it.

    Raises:
        ConfigError: the folder holds no run, or one that has not ended, or another process writes to it.
    """
    with copied_run(Path(folder)) as copy:
        return _of_folder(_check_run(copy, data, engine), Path(folder))


def _of_folder(verdict: SubmissionVerdict, folder: Path) -> SubmissionVerdict:
    """A verdict on a copy as one on the folder itself."""
    problems = tuple(problem.replace(str(verdict.folder), str(folder)) for problem in verdict.problems)
    return replace(verdict, folder=folder, problems=problems)


def _check_run(folder: Path, data: str | None, engine: Engine | None) -> SubmissionVerdict:
    config = read_run_config(folder)
    if not (folder / "leaderboard.json").is_file():
        raise ConfigError("--run", f"{folder} has not ended; run the leaderboard again to finish it")
    problems = [f"run.json, {problem}" for problem in _check_config(config, data)]
    if problems:
        return SubmissionVerdict(folder, None, 0, tuple(problems), ())
    void, problems = void_episodes(folder, config, data)
    rows = [
        RecordedRow(trajectory_path(row), row, None, None if row.track.data is None else data, void.get(row.key, {}))
        for row in config.rows()
    ]
    played, wrong = replay_rows(folder, config, rows, None, engine)
    problems += wrong
    results = [episode.result for episode in played]
    verdicts = Verdicts.read(folder / VERDICTS)
    document = summarise_run(config, results, experience_of(config, engine, data), verdicts)
    problems += compare_lines(folder / EPISODES, results)
    submissions = sorted(path for path in folder.glob(f"{SUBMISSIONS}/*") if not path.name.startswith("."))
    looked_at = (f"{SUBMISSIONS}/{submission.name}/" for submission in submissions)
    pages = {*_PAGES, *(f"{track.name}.html" for track in config.tracks)}
    problems += unexpected_files(folder, {*(row.path for row in rows), *pages, *_OF_A_RUN, *looked_at})
    submitted, informed = [], informed_of(config, results)
    for submission in submissions:
        submission_rows, wrong = _check_kept(submission, config, data, engine, informed)
        problems += [f"{SUBMISSIONS}/{submission.name}: {problem}" for problem in wrong]
        submitted.append(submission_rows)
    if not problems:
        whole = with_submissions(document, submitted)
        problems += compare_documents(folder / "leaderboard.json", whole)
        if not problems and text_of(folder / "run.json") != config.to_json():
            problems.append(f"run.json: {NOT_AS_WRITTEN}")
    return SubmissionVerdict(folder, None, len(results), tuple(problems), tuple(document["rows"]), tuple(played))


def rows_on_board(manifest: Submission, verdict: SubmissionVerdict) -> list[dict[str, Any]]:
    """The rows of a submission as the leaderboard shows them.

    They say whose they are, that replay agrees, and what alarms ring. In those that come with the package, the tokens of a real
    model were counted by us, where it answered.
    """
    by_us = manifest.run.model != SIMULATED and is_shipped(manifest)
    about = {"verified": REPLAYED, "submission": manifest.about()}
    keys = row_keys(manifest.run, verdict.rows)
    # whoever hands in says which episodes are void, so they count as failures
    counted = summarise_run(manifest.run, [result for result in verdict.results if not result.void])["rows"]
    failing = dict(zip(row_keys(manifest.run, counted), counted, strict=True))
    return [
        {
            **row,
            **({**failing[key], **{name: row[name] for name in VOID if name in row}} if row["void_episodes"] else {}),
            "agent": f"{row['agent']} ({manifest.name})",
            **about,
            # whoever played the episodes wrote the tokens into their actions
            **({"metered": False} if TRACKS[row["track"]].charges_tokens and not by_us else {}),
            **({"alarms": list(rung)} if rung else {}),
        }
        for row, rung, key in zip(verdict.rows, verdict.alarms, keys, strict=True)
    ]


def row_keys(run: RunConfig, rows: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Agent and condition of each row, as `alarms.by_row` sorts episodes."""
    conditions = {"conditions": [condition for track in run.tracks for condition in track.document()["conditions"]]}
    return [(str(row["agent"]), row_key(row, conditions)) for row in rows]


def replay_rows(
    folder: Path, run: RunConfig, rows: Sequence[RecordedRow], progress: Progress | None, engine: Engine | None
) -> tuple[list[Played], list[str]]:
    """All episodes that agree, with what they show of their agents, and what is wrong with the files."""
    played, problems = list[Played](), list[str]()
    total = sum(row.row.condition.episodes for row in rows)
    for entry in check_entries(folder, run.seed, rows, engine or Local()):
        problems += [f"{entry.file.path}: {problem}" for problem in entry.problems]
        played += entry.played
        if progress is not None:
            progress(len(played), total)
    return played, problems


# -- configurations --------------------------------------------------------------------------------------------------------


def _in_worlds_of(run: RunConfig, board: RunConfig) -> RunConfig:
    """A run's configuration with the worlds of a leaderboard, as far as it has those tracks."""
    worlds = {track.name: {"scenario": track.scenario, "settings": track.settings} for track in board.tracks}
    tracks = tuple(track.model_copy(update=worlds.get(track.name)) for track in run.tracks)
    return run.model_copy(update={"tracks": tracks})


def _check_config(run: RunConfig, data: str | None) -> list[str]:
    """List how a configuration contradicts itself, this version, or the suite that it names."""
    if run.format != FORMAT:
        return [f"format: expected {FORMAT!r}, got {run.format!r:.80}"]
    if not same_world(run.version):
        return [f"version: played with costgym {run.version}, this is {__version__}"]
    suite = SUITES.get(run.suite)
    if suite is None:
        return [f"suite: there is no suite {run.suite!r}"]
    if run.release is not None:
        from costgym.experiments.board.release import load_release

        try:
            load_release(run.release).check(run)
        except CostGymError as error:
            return [f"release: {error}"]
    stray = [agent for agent in run.weights if agent not in run.agents or not is_trained(agent)]
    if stray:
        return [f"weights: {stray[0]!r:.80} is not a trained agent of this run"]
    for track in run.tracks:
        if track.name not in TRACKS or view_of(track.env) != TRACKS[track.name].views[0]:
            return [f"tracks: {track.name!r} in {track.env!r} is not a track of this version"]
        world = next((world for world in suite.worlds if track.name in world.tracks), None)
        if world is None:
            return [f"suite: {run.suite} has no track {track.name}"]
        if not track.conditions or not track.agents:
            return [f"tracks: {track.name} has no agents or no conditions"]
        try:
            digest = class_of(track.env).world_class(relocated(track.scenario, data)).digest_like(track.digest)
            if digest != track.digest:
                return [f"digest: the world's is {digest}, the configuration says {track.digest}"]
            env = track.make_env(track.env, track.conditions[0], None if track.data is None else data)
            wanted_world = track.world.varied(track.conditions[0].settings)[0]
            if world_of(base_env(env).world_spec().document) != world_of(wanted_world.document):
                return [f"scenario: {NOT_AS_WRITTEN}"]
        except (CostGymError, *BROKEN) as error:
            return [f"scenario: {error}"]
        wanted = world.settings_of(run.grading, run.documents)
        of_track = {env: dict(values) for env, values in track.settings.items()}
        for settings in (wanted, of_track):
            # where the outcome table lies differs between machines; its digest was compared above
            settings.setdefault(ALL_VIEWS, {}).pop("outcomes", None)
        compared = {
            "settings": (of_track, wanted),
            "ranked_by": (track.ranked_by, world.ranked_by),
            "seeds": (track.seeds, track.seeds if class_of(track.env).world_kind == "tools" else world.seeds),
        }
        for name, (got, expected) in compared.items():
            if got != expected:
                return [f"{name}: the suite {run.suite} says {expected!r:.200}, the configuration {got!r:.200}"]
        if any(condition.settings.keys() != world.vary.keys() for condition in track.conditions):
            return [f"conditions: the suite {run.suite} varies {sorted(world.vary) or 'nothing'}"]
    return []


def _check_kept(
    entry: Path, config: RunConfig, data: str | None, engine: Engine | None, informed: Informed
) -> tuple[list[dict[str, Any]], list[str]]:
    """A submission in a run's folder: its rows as replay derives them, and what is wrong with it."""
    if not (entry / MANIFEST).is_file():
        return [], [f"there is no {MANIFEST}"]
    verdict = validate_copy(entry, data, None, engine, config, informed)
    problems = list(verdict.problems)
    if verdict.manifest is None or problems:
        return [], problems
    if verdict.manifest.name != entry.name:
        problems.append(f"{MANIFEST}: names itself {verdict.manifest.name!r}")
    results = [replace(result, agent=f"{result.agent} ({entry.name})") for result in verdict.results]
    problems += compare_lines(entry / EPISODES, results)
    rows = rows_on_board(verdict.manifest, verdict)
    if text_of(entry / ROWS) != json_text(rows):
        problems.append(f"{ROWS}: is not what replay derives")
    return rows, problems
