"""Play an entry in the secret worlds of its epoch, and derive its rows from the record of what it did."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym

from costgym.agents.base import Agent
from costgym.agents.custom import is_custom
from costgym.agents.models.simulated import is_simulated
from costgym.agents.registry import make_model
from costgym.experiments.board.board import Entries, WorkItem, experience_of, play_item, rows_of
from costgym.experiments.board.conditions import condition_key
from costgym.experiments.board.epochs.epoch import Epoch, pooled, without_world
from costgym.experiments.board.reruns.process_agent import Limits, ProcessAgent
from costgym.experiments.board.reruns.requests import answers
from costgym.experiments.board.rows import BY_EPISODE
from costgym.experiments.board.run_config import RowConfig, RunConfig, TrackConfig
from costgym.experiments.board.run_log import EPISODES, EpisodeOutput, RunLog, trajectory_path
from costgym.experiments.board.submissions.alarms import Evidence, alarms, by_row, informed_gain, total
from costgym.experiments.board.submissions.differences import compare_lines, unexpected_files
from costgym.experiments.board.submissions.informed import Informed, informed_of, play_informed
from costgym.experiments.board.submissions.replay import RecordedRow
from costgym.experiments.board.submissions.validation import replay_rows, row_keys
from costgym.experiments.play.episodes import play_many
from costgym.experiments.play.execution.engine import Engine, Local
from costgym.experiments.play.results import EpisodeResult
from costgym.experiments.play.trajectories.format import Header
from costgym.experiments.play.trajectories.record import AgentCrash
from costgym.simulators.errors import DataError, InfrastructureError
from costgym.simulators.files import make_folder

PASSES = 4  # processes, at least, that share a row of own code, so that none meets a task twice or many others
PUT_BACK = 0.01  # share of an entry's episodes, at most, that are played later because the judge's model failed
TELLING = ("crash_reasons", "void_reasons", BY_EPISODE)
"""Parts of a row that tell of single episodes, or in an agent's own words; they are published with the secret."""


class Player(NamedTuple):
    """What entries of an epoch are played and replayed with.

    Attributes:
        sandbox: of own code, as `sandbox.choose` returns it.
        minutes: after which what is left of an entry counts as failed.
    """

    epoch: Epoch
    secret: str
    engine: Engine = Local()
    sandbox: str = "none"
    minutes: float = 120.0

    def config(self, agents: Mapping[str, Sequence[str]]) -> RunConfig:
        """The configuration of some agents, by their track."""
        return self.epoch.secret_run(self.secret, agents)

    def play(self, config: RunConfig, record: Path, code: Path | None = None) -> None:
        """Play all rows into a folder. Raises InfrastructureError if the judge's own model is down, DataError if an agent
        cannot be made."""
        if not is_simulated(config.model) and not answers(make_model(config.model)):
            raise InfrastructureError(f"the judge's model {config.model} does not answer; run the command again once it does")
        limits = Limits(self.minutes, max(1, int(PUT_BACK * config.episodes)))
        experience = experience_of(config, self.engine, keep=False)  # a file of them would tell of the world
        entries = Entries(config, experience)
        make_folder(record)
        with RunLog(record, config) as log:
            for row in config.rows():
                if is_custom(row.agent):
                    outputs = own_code(config, row, code, self.sandbox, limits)
                else:
                    outputs = _ours(entries, row, self.engine)
                for output in outputs:
                    log.add(output)
            log.finish()

    def derive(self, config: RunConfig, record: Path, informed: Informed | None = None) -> "Derived":
        """The rows that follow from the actions in a record, and what is wrong with it."""
        files = [RecordedRow(trajectory_path(row), row) for row in config.rows()]
        played, problems = replay_rows(record, config, files, None, self.engine)
        results = [one.result for one in played]
        problems += compare_lines(record / EPISODES, results)
        problems += unexpected_files(record, {EPISODES, *(file.path for file in files)})
        if problems:
            return Derived((), tuple(problems), informed or {})
        known = informed or informed_of(config, results)
        run, whole = pooled(config.model_copy(update={"seed": self.epoch.run.seed}), results)
        evidence_by_row = {
            key: total(one.evidence for one in group)
            for key, group in by_row(one._replace(result=result) for one, result in zip(played, whole, strict=True)).items()
        }
        beside = _informed(config, known)
        rows = []
        derived = rows_of(run, whole)
        for row, key in zip(derived, row_keys(run, derived), strict=True):
            of_row = (result for result in whole if (result.agent, _key(row["track"], result)) == key)
            gain = informed_gain(of_row, beside.get(key[1], {}), run.track(row["track"]).seeds)
            rung = alarms(evidence_by_row.get(key, Evidence()), row["track"], gain)
            rows.append({**row, **({"alarms": rung} if rung else {})})
        return Derived(tuple(json.loads(json.dumps(rows))), (), known)


class Derived(NamedTuple):
    """The rows of a record, with all that they tell of single episodes."""

    rows: tuple[dict[str, Any], ...]
    problems: tuple[str, ...]
    informed: Informed  # the informed policy's episodes among them

    @property
    def public(self) -> tuple[dict[str, Any], ...]:
        """The rows without what tells of single episodes."""
        return tuple({name: value for name, value in row.items() if name not in TELLING} for row in self.rows)


def _key(track: str, result: EpisodeResult) -> str:
    return condition_key(result.budget, result.settings, track)


def _informed(config: RunConfig, known: Informed) -> dict[str, dict[int, EpisodeResult]]:
    """The informed policy's episodes by their condition, with the worlds of each taken as one."""
    by_condition: dict[str, dict[int, EpisodeResult]] = {}
    before: dict[str, int] = {}
    for track in config.tracks:
        for condition in track.conditions:
            key = condition_key(condition.budget, without_world(condition.settings), track.name)
            start = before.get(key, 0)
            before[key] = start + condition.episodes
            played = play_informed(track, condition, config.seed, None, known)
            by_condition.setdefault(key, {}).update({start + index: result for index, result in played.items()})
    return by_condition


def _ours(entries: Entries, row: RowConfig, engine: Engine) -> Iterator[EpisodeOutput]:
    """Play a row of an agent of costgym, whose code needs no walls."""
    count, longest = row.condition.episodes, engine.episodes_per_task
    items = (WorkItem(*row.key, start, min(count, start + longest)) for start in range(0, count, longest))
    for output in engine.stream(play_item, entries, items):
        if output.result.void:
            raise InfrastructureError(f"the judge's model fails ({output.result.void_reason}); run the command again")
        yield output


def own_code(config: RunConfig, row: RowConfig, code: Path | None, sandbox: str, limits: Limits) -> Iterator[EpisodeOutput]:
    """Play a row of an agent's own code, in several processes one after another that remember nothing of each other. Raises
    DataError where the agent cannot be made; once an entry has begun to play, that is a failure too."""
    try:
        agent = ProcessAgent(row.agent, row.track.env, code, None, config.search, config.btp, sandbox, config.model, limits)
    except DataError as error:
        if not limits.begun:
            raise
        for index in range(row.condition.episodes):
            yield _played(config, row, _Broken(row.agent, "", str(error)), index)
        return
    limits.begun = True
    passes = max(PASSES, row.track.seeds)
    with agent:
        agent.name = row.agent
        put_back: list[int] = []
        for turn in range(passes + 1):
            agent.renew()
            for index in range(turn, row.condition.episodes, passes) if turn < passes else _while_any(put_back):
                try:
                    output = _played(config, row, agent, index)
                except Exception as error:  # whatever an agent breaks while it plays is its failure
                    words = f"it broke its world ({type(error).__name__})"
                    output = _played(config, row, _Broken(row.agent, agent.model, words), index)
                if output.line is None:  # the judge's own requests failed too: at the limit that is a crash
                    limits.outages -= 1
                    put_back.append(index)
                else:
                    limits.size -= len(output.line)
                    yield output


def _played(config: RunConfig, row: RowConfig, agent: Agent, index: int) -> EpisodeOutput:
    """Play an episode."""
    env, header = _world_of(row.track.model_dump_json(), row.number)
    about = row.track.env, [index], config.seed, row.condition.settings, row.track.seeds
    [(result, trajectory)] = play_many(env, agent, *about, crashes="count")
    return EpisodeOutput(result, header.to_json(), None if trajectory is None else trajectory.sealed_json(header))


@lru_cache(maxsize=2)
def _world_of(track: str, number: int) -> tuple[gym.Env[Any, Any], Header]:
    config = TrackConfig.model_validate_json(track)
    env = config.make_env(config.env, config.conditions[number])
    return env, Header.of(env, config.env)


class _Broken(Agent):
    """Crashes at once, in the name of an agent."""

    brokered = True

    def __init__(self, name: str, model: str, words: str) -> None:
        self.name, self.model, self._words = name, model, words

    def reset(self, seat: Any, observation: Any, info: dict[str, Any], seed: int) -> None:
        """Nothing is remembered."""

    def act(self, observation: Any, info: dict[str, Any]) -> Any:
        raise AgentCrash(self._words)


def _while_any(waiting: list[int]) -> Iterator[int]:
    while waiting:
        yield waiting.pop(0)
