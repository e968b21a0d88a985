"""Run a leaderboard: agents under conditions over the same tasks, ranked.

A run has a folder. `run.json` holds its configuration, `episodes.jsonl` and `trajectories/` grow by one line per episode, and
`leaderboard.json` and `index.html` are written at the end. A run that was killed continues after its last complete episode and
ends with the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from ...agents.btp.experience import Experience
from ...agents.btp.plan import BtpSettings
from ...agents.registry import make_agent
from ...agents.strategies import SearchSettings
from ...envs.registration import class_of
from ...simulators.errors import ConfigError, DataError
from ...simulators.scenario import parse_scenario
from ..execution.engine import Engine, Local
from ..files import sole_writer, write_atomically
from ..metrics import summarise
from ..results import EpisodeResult
from ..rollout import CHUNK, RolloutContext, play_many
from .conditions import condition_key, rank_rows
from .run_config import FORMAT, RunConfig, entry_of
from .run_log import EpisodeOutput, RunLog

EXPERIENCE_EPISODES = 400

Progress = Callable[[int, int], None]


class WorkItem(NamedTuple):
    """A piece of work: episodes `start` to `stop` of one agent under one condition."""

    agent: str
    condition: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """A finished run: its folder and the content of `leaderboard.json`."""

    folder: Path
    document: dict[str, Any]

    @property
    def page(self) -> Path:
        return self.folder / "index.html"


def run(
    config: RunConfig, out: str | Path, jobs: int = 1, progress: Progress | None = None, engine: Engine | None = None
) -> Leaderboard:
    """Run a leaderboard, or continue one that was interrupted.

    Args:
        config: configuration of the run.
        out: folder of the run, created if it does not exist.
        jobs: number of processes; the result does not depend on it.
        progress: called with the numbers of finished and of all episodes.
        engine: engine that plays the episodes, instead of `jobs` processes; the result does not depend on it.

    Raises:
        ConfigError: the folder belongs to another run, or another process writes to it.
        InfrastructureError: workers were lost repeatedly; run again to continue.
    """
    if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1:
        raise ConfigError("--jobs", f"expected a positive whole number, got {jobs!r}")
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError("--out", f"{folder} cannot be a folder: {error.strerror}") from error
    check_owner(config.to_json(), folder)
    with sole_writer(folder):
        write_atomically(folder / "run.json", config.to_json())
        experience = _experience(config, folder)
        results = _finish_episodes(config, folder, experience, engine or Local(jobs), progress)
        document = publish(folder, summarise_run(config, results))
    return Leaderboard(folder, document)


def publish(folder: Path, document: dict[str, Any]) -> dict[str, Any]:
    """Write `leaderboard.json` and the page: the run's own rows, and those of the submissions kept in its folder.

    The page shows the learning curves of trained agents whose training runs still exist.
    """
    from ..reports.leaderboard_page import page_of

    rows = [row for row in document["rows"] if "submission" not in row]
    for path in sorted(folder.glob("submissions/*/rows.json")):
        rows += json.loads(path.read_text(encoding="utf-8"))
    document = {**document, "rows": rank_rows(rows, document)}
    write_atomically(folder / "leaderboard.json", json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    write_atomically(folder / "index.html", page_of(document))
    return document


def summarise_run(config: RunConfig, results: Iterable[EpisodeResult]) -> dict[str, Any]:
    """The content of `leaderboard.json`: one row per agent and condition, best first within a condition."""
    groups: dict[tuple[str, str], list[EpisodeResult]] = {}
    for result in results:
        groups.setdefault((result.agent, condition_key(result.budget, result.settings)), []).append(result)
    rows = [
        summarise(groups[agent, condition.key], config.grading, episodes=condition.episodes, seed=config.seed)
        for agent, _, condition in config.entries()
        if (agent, condition.key) in groups
    ]
    document = {
        "format": FORMAT,
        "suite": config.suite,
        "seed": config.seed,
        "version": config.version,
        "grading": config.grading,
        "ranked_by": config.ranked_by,
        "scenario": {
            **class_of(config.env).world_summary(config.scenario),
            "digest": config.digest,
            "split": config.split,
        },
        "conditions": [condition.document() for condition in config.conditions],
    }
    return {**document, "rows": rank_rows(rows, document)}


def check_owner(manifest: str, folder: Path) -> None:
    """Raise an error for a folder that holds another run or other files."""
    path = folder / "run.json"
    if not path.exists():
        strangers = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
        if strangers:
            raise ConfigError("--out", f"{folder} holds other files ({strangers[0]}) and no run.json; choose an empty folder")
        return
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise DataError(path, "is no configuration of a run; choose another folder") from error
    wanted = json.loads(manifest)
    if found != wanted:
        names = found.keys() | wanted.keys() if isinstance(found, dict) else {"format"}
        differing = sorted(n for n in names if not isinstance(found, dict) or found.get(n) != wanted.get(n))
        raise ConfigError(
            "--out", f"{folder} belongs to another run (different: {', '.join(differing)}); choose another folder"
        )


def _experience(config: RunConfig, folder: Path) -> Path | None:
    """The experience of planning agents on the train split, collected once before the ranked episodes."""
    if not any(entry_of(name, config.env).needs_experience for name in config.agents):
        return None
    path = folder / "experience.jsonl"
    if not path.exists():
        from ..training.data.experience import collect_experience

        scenario = parse_scenario(config.scenario, "run.json")
        count = min(EXPERIENCE_EPISODES, 4 * len(scenario.build().tasks.numbers("train")))
        write_atomically(path, collect_experience(scenario, episodes=count, seed=config.seed).to_jsonl())
    return path


def _finish_episodes(
    config: RunConfig, folder: Path, experience: Path | None, engine: Engine, progress: Progress | None
) -> list[EpisodeResult]:
    with RunLog(folder, config.agents, config.conditions) as log:
        if progress is not None:
            progress(len(log.found), config.episodes)
        # workers on other machines do not see the folder, so they are sent what is in it
        entries = Entries(config, None if experience is None else experience.read_text(encoding="utf-8"))
        for played in engine.stream(play_item, entries, _work_items(config, log.found)):
            log.add(played)
            if progress is not None:
                progress(len(log.found), config.episodes)
    return log.finish()


def _work_items(config: RunConfig, found: Mapping[tuple[str, int, int], EpisodeResult]) -> list[WorkItem]:
    """The episodes that remain to be played, as ranges of consecutive ones."""
    items = []
    for agent, number, condition in config.entries():
        missing = [index for index in range(condition.episodes) if (agent, number, index) not in found]
        start = 0
        for place in range(1, len(missing) + 1):
            if place == len(missing) or missing[place] != missing[place - 1] + 1 or place - start == CHUNK:
                items.append(WorkItem(agent, number, missing[start], missing[place - 1] + 1))
                start = place
    return items


class Entries:
    """The entries of a run, as one process plays them: each agent in its environment. Pickling keeps what they are made from.

    Args:
        config: of the run.
        experience: the past uses that BTP plans from, as JSON lines; None where no agent needs them.
    """

    def __init__(self, config: RunConfig, experience: str | None) -> None:
        self.config, self._text = config, experience
        self._experience = None if experience is None else Experience.from_jsonl(experience)
        # an entry is kept from one piece of its episodes to the next
        self.context = lru_cache(maxsize=4)(self._open)

    def __reduce__(self) -> tuple[Any, ...]:
        return Entries, (self.config, self._text)

    def _open(self, name: str, condition: int) -> RolloutContext:
        config = self.config
        entry = entry_of(name, config.env)
        agent = make_agent(
            name,
            config.env if config.env in entry.env_ids else entry.env_id,
            model=config.model,
            experience=self._experience,
            search=SearchSettings(**config.search) if config.search else None,
            btp=BtpSettings(**config.btp) if config.btp else None,
        )
        return RolloutContext(config.make_env(agent.env_id, config.conditions[condition]), agent)


def play_item(entries: Entries, item: WorkItem) -> Iterator[EpisodeOutput]:
    """Play some episodes of an entry."""
    config, context = entries.config, entries.context(item.agent, item.condition)
    header = context.header
    first = header.to_json()
    indices, settings = range(item.start, item.stop), config.conditions[item.condition].settings
    for result, trajectory in play_many(context.env, context.agent, context.env_id, indices, config.seed, settings):
        yield EpisodeOutput(result, first, None if trajectory is None else trajectory.sealed_json(header))
