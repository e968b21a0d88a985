"""The parts of a leaderboard's run: agents play the same tasks under the same conditions and are ranked track by track.

A run is a folder. `run.json` holds its configuration, `episodes.jsonl` and `trajectories/` grow by one line an episode, and
`leaderboard.json` and the pages are written at the end. A run that was killed continues with the episodes that it has and ends
with the same bytes.
"""

import json
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from costgym.agents.base import Agent, view_of
from costgym.agents.btp.experience import Experience
from costgym.agents.btp.plan import BtpSettings
from costgym.agents.custom import is_custom
from costgym.agents.llm.strategies import SearchSettings
from costgym.agents.models.base import LanguageModel
from costgym.agents.models.cached import Cached
from costgym.agents.models.named import read_model_name
from costgym.agents.registry import make_agent, make_model
from costgym.experiments.board.conditions import currency_of, grouped, rank_rows, ranking_metric, row_of
from costgym.experiments.board.judged import VERDICTS, JudgeOptions, judge_run, with_verdicts
from costgym.experiments.board.rows import BY_EPISODE, columns_of, tokens_counted
from costgym.experiments.board.run_config import FORMAT, RunConfig, TrackConfig, copied_run, entry_of, read_run_config
from costgym.experiments.board.run_log import EPISODES, EpisodeOutput, Key, RunLog, read_episodes
from costgym.experiments.board.tracks import track_documents, track_of
from costgym.experiments.play.costs.spending import Spending, sample_episodes
from costgym.experiments.play.episodes import RolloutContext, play_many
from costgym.experiments.play.execution.concurrent import Concurrent, batch_of, for_replays
from costgym.experiments.play.execution.engine import Engine
from costgym.experiments.play.experience import ExperienceSettings, describe_experience, past_uses
from costgym.experiments.play.judging.verdicts import Verdicts
from costgym.experiments.play.metrics import GRADINGS, episode_figures, summarise, with_budget_areas, with_fault_robustness
from costgym.experiments.play.models.notices import server_notices
from costgym.experiments.play.result_set import Results
from costgym.experiments.play.results import EpisodeResult
from costgym.experiments.play.trajectories.format import relocated
from costgym.experiments.play.trajectories.verify import BROKEN
from costgym.simulators.errors import ConfigError, DataError, UnknownName
from costgym.simulators.files import change_together, finish_change, json_text, make_folder, read_json, write_atomically
from costgym.simulators.scenario import parse_scenario

SUBMISSIONS = "submissions"  # folder of the submissions that were added to a run
REPLIES = ".replies"  # folder of a real model's replies while a run goes on
ROWS = "rows.json"  # file with the rows of a submission

Progress = Callable[[int, int], None]
Players = Mapping[str, Callable[[LanguageModel], Agent]]  # makers of agents by name; each is handed the run's model
NO_PLAYERS: Players = {}
PastUses = Mapping[str, str]  # of tools, as JSON lines, by the track whose agents plan from them
NO_PAST_USES: PastUses = {}
PageMaker = Callable[[Mapping[str, Any]], Mapping[str, str]]  # renders `leaderboard.json` as pages, by their files' names


class WorkItem(NamedTuple):
    """A piece of work: episodes `start` to `stop` of one agent under one condition of a track."""

    track: str
    agent: str
    condition: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """A finished run: its folder and the content of `leaderboard.json`."""

    folder: Path
    document: dict[str, Any]

    @classmethod
    def load(cls, folder: str | Path) -> "Leaderboard":
        """Read the leaderboard of a folder; raises ConfigError if the folder holds no run that has ended, or another process
        writes to it, or DataError if a file cannot be read."""
        with copied_run(Path(folder), ("run.json", "leaderboard.json")) as copy:
            read_run_config(copy)
            if not (copy / "leaderboard.json").is_file():
                raise ConfigError("folder", f"{copy} holds a run that has not ended; run the same command again to end it")
            document = read_json(copy / "leaderboard.json")
            if not isinstance(document, dict) or document.get("format") != FORMAT:
                raise DataError(copy / "leaderboard.json", f"expected a document of the format {FORMAT}")
        return cls(Path(folder), document)

    @property
    def page(self) -> Path:
        return self.folder / "index.html"

    @property
    def notices(self) -> list[str]:
        """What the servers of the models did that is not the models' play, a sentence each."""
        return [notice for row in self.document["rows"] for notice in server_notices(row)]

    @property
    def results(self) -> Results:
        """The episodes of the run's own rows, read from `episodes.jsonl`; those of submissions are not among them. Raises
        DataError if a line is not a valid record, or of none of the run's tracks."""
        with copied_run(self.folder, ("run.json", EPISODES, VERDICTS)) as copy:
            config, verdicts = read_run_config(copy), Verdicts.read(copy / VERDICTS)
            episodes = with_verdicts(read_episodes(copy), verdicts)
        results = Results()
        for track in config.tracks:
            try:
                currency = str(track.world.summary().get("currency") or "")
            except BROKEN as error:
                raise DataError(self.folder / "run.json", f"its world cannot be read ({error!r:.200})", track.name) from error
            of_track = [result for result in episodes if track_of(result.env, result.settings) == track.name]
            results += Results(
                of_track, split=track.split, grading=config.grading, currency=currency, seed=config.seed, seeds=track.seeds
            )
        if len(results) < len(episodes):
            raise DataError(self.folder / EPISODES, f"{len(episodes) - len(results)} records belong to no track of this run")
        return results


class Addition(NamedTuple):
    """A submission to add to a run."""

    name: str
    contact: str  # of whoever hands it in
    rows: list[dict[str, Any]]
    fill: Callable[[Path], None]  # writes its files, except that of the rows, into an empty folder


def publish(
    folder: Path, document: Mapping[str, Any], added: Sequence[Addition] = (), pages: PageMaker | None = None
) -> dict[str, Any]:
    """Write `leaderboard.json` and the pages (unchanged without `pages`) in one step, with the run's own rows and those of its
    submissions; those `added` take the place of others of their names."""
    submitted = {path.parent.name: read_rows(path) for path in folder.glob(f"{SUBMISSIONS}/*/{ROWS}")}
    submitted |= {submission.name: submission.rows for submission in added}
    # in the order of their names, so that the bytes do not tell in which order they were added
    whole = with_submissions(document, [submitted[name] for name in sorted(submitted)])
    with change_together(folder) as draft:
        (draft / "leaderboard.json").write_text(json_text(whole), encoding="utf-8")
        for name, text in ({} if pages is None else pages(whole)).items():
            (draft / name).write_text(text, encoding="utf-8")
        for submission in added:
            target = draft / SUBMISSIONS / submission.name
            target.mkdir(parents=True)
            submission.fill(target)
            (target / ROWS).write_text(json_text(submission.rows), encoding="utf-8")
    return whole


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Read the rows of a submission in a run's folder; raises DataError if they cannot be read."""
    rows = read_json(path)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise DataError(path, "expected a list of rows")
    return rows


def with_submissions(document: Mapping[str, Any], submitted: Iterable[Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """A leaderboard's content with its own rows and those of submissions, ranked."""
    rows = [row for row in document["rows"] if "submission" not in row]
    return {**document, "rows": rank_rows([*rows, *(row for rows_of_entry in submitted for row in rows_of_entry)], document)}


def summarise_run(
    config: RunConfig, results: Iterable[EpisodeResult], experience: PastUses = NO_PAST_USES, verdicts: Verdicts | None = None
) -> dict[str, Any]:
    """The content of `leaderboard.json` for the episodes of a run; see `rows_of` and `document_of`."""
    return document_of(config, rows_of(config, with_verdicts(results, verdicts)), experience, verdicts)


def rows_of(config: RunConfig, results: Iterable[EpisodeResult]) -> list[dict[str, Any]]:
    """The rows of a run, one per track, agent and condition, in the order of its configuration."""
    groups = grouped(results, row_of)
    rows = []
    for config_row in config.rows():
        if results_of_row := groups.get(config_row.identity):
            calm, about = config_row.condition.calm, {"seed": config.seed, "seeds": config_row.track.seeds}
            figures = summarise(results_of_row, config.grading, episodes=config_row.condition.episodes, **about)
            row = {
                "track": config_row.track.name,
                **figures,
                **({} if tokens_counted(config_row, results_of_row) else {"metered": False}),
            }
            if config.command is not None and config_row.agent == config.command.name:
                row["isolated"] = config.command.isolation != "none"
            reference = None if calm is None else groups.get((config_row.track.name, config_row.agent, calm.key))
            if reference is not None:
                row = with_fault_robustness(row, results_of_row, reference, **about)
            keys = dict.fromkeys(ranking_metric(config_row.track.document(), grading) for grading in GRADINGS)
            rows.append(
                {**row, BY_EPISODE: {key: episode_figures(results_of_row, key, config_row.condition.episodes) for key in keys}}
            )
    return with_budget_areas(rows)


def document_of(
    config: RunConfig,
    rows: Sequence[Mapping[str, Any]],
    experience: PastUses = NO_PAST_USES,
    verdicts: Verdicts | None = None,
) -> dict[str, Any]:
    """The content of `leaderboard.json` with some rows, best first within a condition. Tracks whose agents plan from
    `experience` say how much it is."""
    tracks = [{**track.document(), **_experience_document(config, experience.get(track.name))} for track in config.tracks]
    first = tracks[0]
    document: dict[str, Any] = {
        "format": FORMAT,
        "suite": config.suite,
        "seed": config.seed,
        "version": config.version,
        **({} if config.release is None else {"release": config.release}),
        "run": config.digest,
        "grading": config.grading,
        **({} if verdicts is None else {"judge": verdicts.document()}),
        "ranked_by": first["ranked_by"],
        "scenario": first["scenario"],
        "tracks": [{name: value for name, value in track.items() if name != "conditions"} for track in tracks],
        "conditions": [condition for track in tracks for condition in track["conditions"]],
    }
    ranked = rank_rows(rows, document)
    for track, view in zip(document["tracks"], track_documents({**document, "rows": ranked}), strict=True):
        track["metrics"] = {metric.key: metric.document(currency_of(view)) for metric in columns_of(view)}
    return {**document, "rows": ranked}


def check_owner(manifest: str, folder: Path) -> None:
    """Raise an error for a folder that holds another run or other files."""
    path = folder / "run.json"
    if not path.exists():
        if unexpected := sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith(".")):
            raise ConfigError("--out", f"{folder} holds other files ({unexpected[0]}) and no run.json; choose an empty folder")
        return
    present, wanted = read_json(path), json.loads(manifest)
    if present != wanted:
        names = present.keys() | wanted.keys() if isinstance(present, dict) else {"format"}
        differing = sorted(n for n in names if not isinstance(present, dict) or present.get(n) != wanted.get(n))
        raise ConfigError(
            "--out", f"{folder} belongs to another run (different: {', '.join(differing)}); choose another folder"
        )


def experience_of(config: RunConfig, engine: Engine | None = None, data: str | None = None, keep: bool = True) -> PastUses:
    """The past uses of tools that a run's agents with BTP plan from. `keep` caches new ones."""
    return {
        track.name: past_uses(parse_scenario(relocated(track.scenario, data), "run.json"), config.experience, engine, keep=keep)
        for track in config.tracks
        if _plans_from_experience(track)
    }


def _plans_from_experience(track: TrackConfig) -> bool:
    for agent in track.agents:
        if is_custom(agent):
            continue  # to look it up would run its code here, where runs of others are judged
        with suppress(UnknownName):  # an entry of others may name an agent that is not here
            if entry_of(agent, track.name).needs_experience:
                return True
    return False


def _experience_document(config: RunConfig, text: str | None) -> dict[str, Any]:
    if text is None:
        return {}
    chosen = config.experience or ExperienceSettings()
    about = {"explorer": chosen.explorer, "remembered": chosen.remembered}
    return {"experience": {**about, **describe_experience(text)}}


class Run:
    """A run in its folder: it plays what the folder lacks, asks a judge, and publishes the table."""

    def __init__(self, config: RunConfig, folder: Path, players: Players = NO_PLAYERS) -> None:
        self.config, self.folder, self.players = config, folder, players
        self.results: list[EpisodeResult] = []
        self._experience = NO_PAST_USES

    def claim(self) -> None:
        """Raise an error if the folder holds another run or other files; it may hold a part of this run."""
        make_folder(self.folder)
        check_owner(self.config.to_json(), self.folder)

    def begin(self) -> None:
        """Write the configuration, and end what a killed process left half done."""
        finish_change(self.folder)
        write_atomically(self.folder / "run.json", self.config.to_json())

    def play(self, engine: Engine, progress: Progress | None = None, spending: Spending | None = None) -> None:
        """Play the episodes that the folder lacks; `results` then has all of them, in order."""
        config = self.config
        # explorers use the simulated model, which a batch of requests to a local model does not speed up
        self._experience = experience_of(config, for_replays(engine))
        with RunLog(self.folder, config) as log:
            if progress is not None:
                progress(len(log.recorded), config.episodes)
            journal = self.folder / REPLIES if isinstance(engine, Concurrent) else None
            entries = Entries(config, self._experience, batch_of(engine), journal, self.players)
            items = self._work_items(log.recorded, engine.episodes_per_task if spending is None else 1)
            if spending is None:
                outputs = engine.stream(play_item, entries, items)
            else:
                self._expect_spending(spending, log.recorded)
                singles = (((*item[:3],), item) for item in items)
                outputs = spending.stream(engine, play_item, entries, singles, lambda output: output.result)
            for played in outputs:
                log.add(played)
                if progress is not None:
                    progress(len(log.recorded), config.episodes)
        if spending is not None:
            spending.check(len(log.recorded), config.episodes)
        self.results = log.finish()
        shutil.rmtree(self.folder / REPLIES, ignore_errors=True)

    def judge(self, judge: JudgeOptions, progress: Progress | None = None, spending: Spending | None = None) -> None:
        """Ask a model for the verdicts that the folder lacks, for what is left of the limit of both."""
        if judge.limit_usd is not None and spending is not None:
            judge = judge._replace(limit_usd=judge.limit_usd - spending.spent_usd)
        judge_run(self.folder, self.config, judge, progress)

    def publish(self, pages: PageMaker | None) -> dict[str, Any]:
        """Write and return the table, with the verdicts that the folder holds; see `publish`."""
        verdicts = Verdicts.read(self.folder / VERDICTS)
        return publish(self.folder, summarise_run(self.config, self.results, self._experience, verdicts), pages=pages)

    def _expect_spending(self, spending: Spending, played_before: Mapping[Key, EpisodeResult]) -> None:
        """Forecast what the episodes that are left cost, and count those that were played; raises ConfigError if there is a
        limit, but tokens of the run have no price of the table."""
        simulated = Entries(self.config.model_copy(update={"model": "simulated"}), self._experience, players=self.players)
        left_of_all, unpriced = 0, []
        for row in self.config.rows():
            played = [
                played_before[key] for index in range(row.condition.episodes) if (key := (*row.key, index)) in played_before
            ]
            left = row.condition.episodes - len(played)
            usd_per_unit: float | None = 0.0
            if simulated.context(*row.key).agent.model == "simulated":  # the run's model takes its place
                usd_per_unit = spending.usd_per_unit(row.track.scenario)
            if usd_per_unit is None:
                unpriced.append(row.track.name)
                usd_per_unit = 0.0
            indices = sample_episodes(row.condition.episodes) if left and usd_per_unit else []
            items = [WorkItem(*row.key, index, index + 1) for index in indices]
            sample = [output.result for item in items for output in play_item(simulated, item)]
            spending.expect(row.key, usd_per_unit, sample, left)
            left_of_all += left if sample else 0
            for result in played:
                spending.add(row.key, result)
        if unpriced:
            spending.unpriced(list(dict.fromkeys(unpriced)))
        spending.announce(left_of_all)

    def _work_items(self, played: Mapping[Key, EpisodeResult], longest: int) -> list[WorkItem]:
        """List what is still to be played, in runs of consecutive episodes."""
        items = []
        for row in self.config.rows():
            missing = [index for index in range(row.condition.episodes) if (*row.key, index) not in played]
            start = 0
            for end in range(1, len(missing) + 1):
                if end == len(missing) or missing[end] != missing[end - 1] + 1 or end - start == longest:
                    items.append(WorkItem(*row.key, missing[start], missing[end - 1] + 1))
                    start = end
        return items


_ONE_AT_A_TIME = threading.Lock()


class Entries:
    """The rows of a run as one process plays them: each agent in its environment. Pickling keeps what they are made from. A
    model that is loaded already may be handed over; its replies are kept in the folder `journal`, each for its own row.
    `players` makes agents that the registry cannot make."""

    def __init__(
        self,
        config: RunConfig,
        experience: PastUses,
        model: LanguageModel | None = None,
        journal: Path | None = None,
        players: Players = NO_PLAYERS,
    ) -> None:
        self.config, self._past, self._model, self._journal, self._players = config, experience, model, journal, players
        # a row's agent and environment are kept from one range of its episodes to the next
        self.context = lru_cache(maxsize=4)(self._open)
        # read when the first agent of the track that plans from it plays
        self._experience = lru_cache(maxsize=None)(lambda track: Experience.from_jsonl(self._past[track]))

    def __reduce__(self) -> tuple[Any, ...]:
        return Entries, (self.config, self._past, self._model, self._journal, self._players)

    def _open(self, track: str, name: str, condition: int) -> RolloutContext:
        config, track_config, entry = self.config, self.config.track(track), entry_of(name, track)
        with _ONE_AT_A_TIME:  # threads that begin together would each build the same world
            model: str | LanguageModel = self._model or config.model
            if self._journal is not None and read_model_name(config.model) is not None:
                model = Cached(make_model(config.model), self._journal / "replies.sqlite", f"{track} {name} {condition}", True)
            if name in self._players:
                player = self._players[name](make_model(model) if isinstance(model, str) else model)
                return RolloutContext(track_config.make_env(player.env_id, track_config.conditions[condition]), player)
            agent = make_agent(
                name,
                track_config.env if view_of(track_config.env) in entry.env_ids else entry.env_id,
                model=model,
                experience=self._experience(track) if entry.needs_experience else None,
                search=SearchSettings.chosen(config.search, name.partition("+")[0]),
                btp=BtpSettings(**config.btp) if config.btp else None,
            )
            return RolloutContext(track_config.make_env(agent.env_id, track_config.conditions[condition]), agent)


def play_item(entries: Entries, item: WorkItem) -> Iterator[EpisodeOutput]:
    """Play some episodes of a row."""
    config = entries.config
    track, context = config.track(item.track), entries.context(item.track, item.agent, item.condition)
    header = context.header
    first = header.to_json()
    indices, settings = range(item.start, item.stop), track.conditions[item.condition].settings
    about = context.env, context.agent, context.env_id, indices, config.seed, settings, track.seeds
    for result, trajectory in play_many(*about, crashes="count"):
        yield EpisodeOutput(result, first, None if trajectory is None else trajectory.sealed_json(header))
