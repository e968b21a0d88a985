"""The main job: agents × budgets × tasks, ranked.

A run lives in a folder. `run.json` says what is run, `episodes.jsonl` and `trajectories/` grow by one line an episode,
`leaderboard.json` and `index.html` are written at the end. A run that was killed continues from the episodes it has and ends
with the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict

from ... import __version__
from ...agents.base import TEXT
from ...agents.btp.experience import Experience
from ...agents.btp.plan import BtpSettings
from ...agents.models.named import priced_for
from ...agents.registry import agent_names, make_agent, needs_experience, read_agent_name
from ...agents.strategies import SearchSettings
from ...envs.registration import make
from ...simulators.errors import ConfigError, DataError, UnknownName
from ...simulators.ledger import Budget
from ...simulators.scenario import Scenario, load_scenario
from ..execution.engine import Engine, Local
from ..execution.engine import default_jobs as default_jobs
from ..files import sole_writer, write_atomically
from ..metrics import GRADINGS, EpisodeResult, rank_rows, summarise
from ..rollout import play_many
from ..trajectories.format import Header
from .run_log import EpisodeOutput, Records
from .submissions.manifest import weights_of
from .suites import suite as suite_named

FORMAT = "costgym.leaderboard/1"
CHUNK = 25
"""Episodes of one unit of work: large enough to outweigh its dispatch, small enough to share evenly and to lose little."""
EXPERIENCE_EPISODES = 400

Progress = Callable[[int, int], None]


class RunConfig(BaseModel):
    """All that determines a leaderboard's bytes.

    `settings` are further arguments of the text view; `search` and `btp` are fields of `SearchSettings` and `BtpSettings` that
    differ from the agents' own. `weights` are hashes of what trained agents play with: other weights, another run.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    format: str = FORMAT
    version: str = __version__
    suite: str
    scenario: Scenario
    agents: tuple[str, ...]
    budgets: tuple[dict[str, float], ...]
    episodes: int
    split: str
    grading: str
    seed: int
    model: str
    settings: dict[str, str] = {}  # pydantic copies it
    search: dict[str, Any] = {}
    btp: dict[str, Any] = {}
    weights: dict[str, str] = {}


class WorkItem(NamedTuple):
    """A piece of work: episodes `start` to `stop` of one agent under one budget."""

    agent: str
    budget: int
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


def make_run_config(
    suite: str = "quick",
    scenario: str | Path | Scenario | None = None,
    data: str | Path | None = None,
    agents: Sequence[str] | None = None,
    budgets: str | Sequence[Budget] | None = None,
    episodes: int | None = None,
    split: str = "test",
    grading: str = "strict",
    seed: int = 0,
    model: str = "simulated",
    search: Mapping[str, Any] | None = None,
    btp: Mapping[str, Any] | None = None,
    prices: str | Path | None = None,
) -> RunConfig:
    """What to run, checked before anything runs. A real model's tokens are priced by the table `prices`: see `priced_for`.

    Raises:
        UnknownName: a suite, scenario, agent, split or grading that there is not; the nearest ones are named.
        ConfigError: a number makes no sense.
        DataError: the scenario or its data cannot be read.
    """
    chosen = suite_named(suite)
    if grading not in GRADINGS:
        raise UnknownName("grading", grading, GRADINGS)
    count = chosen.episodes if episodes is None else episodes
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ConfigError("--episodes", f"expected a positive whole number, got {count!r}")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**62:
        raise ConfigError("--seed", f"expected a whole number from 0 to 2**62, got {seed!r}")
    names = tuple(agents if agents is not None else chosen.agents)
    if not names:
        raise ConfigError("--agents", "expected at least one agent")
    for name in names:
        read_agent_name(name)
    if len(set(names)) < len(names):
        raise ConfigError("--agents", "expected every agent once")
    limits = Budget.parse(budgets or chosen.budgets) if budgets is None or isinstance(budgets, str) else list(budgets)
    settings = scenario if isinstance(scenario, Scenario) else load_scenario(scenario or chosen.scenario, data)
    settings = priced_for(settings, model, prices)
    settings.build().tasks.numbers(split)
    return RunConfig(
        suite=suite,
        scenario=settings,
        agents=names,
        budgets=tuple(budget.as_dict() for budget in limits),
        episodes=count,
        split=split,
        grading=grading,
        seed=seed,
        model=model,
        settings=dict(chosen.settings),
        search=dict(search or {}),
        btp=dict(btp or {}),
        weights=weights_of(names),
    )


def run(
    plan: RunConfig, out: str | Path, jobs: int = 1, progress: Progress | None = None, engine: Engine | None = None
) -> Leaderboard:
    """Run a leaderboard, or what is left of it.

    Args:
        plan: what to run.
        out: the folder; created if need be.
        jobs: processes to run in; the result does not depend on it.
        progress: called with the numbers of finished and of all episodes.
        engine: where episodes are played instead, see `engines`; the result does not depend on it either.

    Raises:
        ConfigError: the folder belongs to another run, or another process writes to it.
        InfrastructureError: workers were lost again and again; run again to continue.
    """
    if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1:
        raise ConfigError("--jobs", f"expected a positive whole number, got {jobs!r}")
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError("--out", f"{folder} cannot be a folder: {error.strerror}") from error
    check_owner(_manifest(plan), folder)
    with sole_writer(folder):
        write_atomically(folder / "run.json", _manifest(plan))
        experience = _experience(plan, folder)
        results = _finish_episodes(plan, folder, experience, engine or Local(jobs), progress)
        document = publish(folder, summarise_run(plan, results))
    return Leaderboard(folder, document)


def read_run_config(folder: Path) -> RunConfig:
    """What a run's folder says it runs.

    Raises:
        ConfigError: the folder holds no run.
        DataError: its manifest is none.
    """
    path = folder / "run.json"
    if not path.is_file():
        raise ConfigError("--run", f"{folder} is no leaderboard run: it holds no run.json")
    if (folder / "plans.jsonl").is_file():
        raise ConfigError(
            "--run", f"{folder} is a run of the suite opencatp; `costgym verify` checks it, but it is not handed in"
        )
    try:
        return RunConfig.model_validate_json(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(path, "is no run manifest") from error


def publish(folder: Path, document: dict[str, Any]) -> dict[str, Any]:
    """Write `leaderboard.json` and the page: the run's own rows, and those of the submissions kept in its folder.

    The page shows how trained agents learnt, where their training runs are still there.
    """
    from ..reports.leaderboard_page import PageContext, render
    from ..reports.learning_curves import curves_section

    rows = [row for row in document["rows"] if "submission" not in row]
    for path in sorted(folder.glob("submissions/*/rows.json")):
        rows += json.loads(path.read_text(encoding="utf-8"))
    document = {**document, "rows": list(rank_rows(rows, document["grading"]))}
    write_atomically(folder / "leaderboard.json", json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    write_atomically(folder / "index.html", render(document, PageContext(sections=curves_section(document["rows"]))))
    return document


def summarise_run(plan: RunConfig, results: Iterable[EpisodeResult]) -> dict[str, Any]:
    """The content of `leaderboard.json`: one row per agent and budget, best first within a budget."""
    groups: dict[tuple[str, int], list[EpisodeResult]] = {}
    indices = {json.dumps(budget, sort_keys=True): index for index, budget in enumerate(plan.budgets)}
    for result in results:
        groups.setdefault((result.agent, indices[json.dumps(dict(result.budget), sort_keys=True)]), []).append(result)
    rows = [summarise(group, plan.grading, episodes=plan.episodes, seed=plan.seed) for group in groups.values()]
    return {
        "format": FORMAT,
        "suite": plan.suite,
        "seed": plan.seed,
        "version": plan.version,
        "grading": plan.grading,
        "scenario": {
            "name": plan.scenario.name,
            "description": plan.scenario.description,
            "currency": plan.scenario.currency,
            "digest": plan.scenario.digest,
            "split": plan.split,
        },
        "rows": list(rank_rows(rows, plan.grading)),
    }


def _manifest(plan: RunConfig) -> str:
    return json.dumps(plan.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n"


def check_owner(manifest: str, folder: Path) -> None:
    """Refuse a folder that holds another run, or other files."""
    path = folder / "run.json"
    if not path.exists():
        strangers = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
        if strangers:
            raise ConfigError("--out", f"{folder} holds other files ({strangers[0]}) and no run.json; choose an empty folder")
        return
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise DataError(path, "is no run manifest; choose another folder") from error
    wanted = json.loads(manifest)
    if found != wanted:
        names = found.keys() | wanted.keys() if isinstance(found, dict) else {"format"}
        differing = sorted(n for n in names if not isinstance(found, dict) or found.get(n) != wanted.get(n))
        raise ConfigError(
            "--out", f"{folder} belongs to another run (different: {', '.join(differing)}); choose another folder"
        )


def _experience(plan: RunConfig, folder: Path) -> Path | None:
    """What planning agents learnt on the train split; collected once, before anyone is ranked."""
    if not any(needs_experience(name) for name in plan.agents):
        return None
    path = folder / "experience.jsonl"
    if not path.exists():
        from ..training.data.experience import collect_experience

        world = plan.scenario.build()
        count = min(EXPERIENCE_EPISODES, 4 * len(world.tasks.numbers("train")))
        write_atomically(path, collect_experience(plan.scenario, episodes=count, seed=plan.seed).to_jsonl())
    return path


def _finish_episodes(
    plan: RunConfig, folder: Path, experience: Path | None, engine: Engine, progress: Progress | None
) -> list[EpisodeResult]:
    total = len(plan.agents) * len(plan.budgets) * plan.episodes
    with Records(folder, plan.agents, plan.budgets) as records:
        if progress is not None:
            progress(len(records.found), total)
        # workers on other machines do not see the folder, so they are sent what is in it
        shared = plan.model_dump_json(), None if experience is None else experience.read_text(encoding="utf-8")
        for played in engine.stream(_play_unit, shared, _units(plan, records.found)):
            records.add(played)
            if progress is not None:
                progress(len(records.found), total)
    return records.finish()


def _units(plan: RunConfig, found: Mapping[tuple[str, int, int], EpisodeResult]) -> list[WorkItem]:
    """What is still to be played, in runs of consecutive episodes."""
    units = []
    for agent in plan.agents:
        for budget in range(len(plan.budgets)):
            missing = [index for index in range(plan.episodes) if (agent, budget, index) not in found]
            start = 0
            for place in range(1, len(missing) + 1):
                if place == len(missing) or missing[place] != missing[place - 1] + 1 or place - start == CHUNK:
                    units.append(WorkItem(agent, budget, missing[start], missing[place - 1] + 1))
                    start = place
    return units


def _play_unit(shared: tuple[str, str | None], unit: WorkItem) -> Iterator[EpisodeOutput]:
    plan = _read_plan(shared[0])
    experience = None if shared[1] is None else _read_experience(shared[1])
    budget = Budget.from_mapping(plan.budgets[unit.budget])
    search = SearchSettings(**plan.search) if plan.search else None
    btp = BtpSettings(**plan.btp) if plan.btp else None
    agent = make_agent(unit.agent, model=plan.model, experience=experience, search=search, btp=btp)
    env = make(
        agent.env_id,
        scenario=plan.scenario,
        split=plan.split,
        budget=budget.as_dict(),
        enforcement="record",
        grading=plan.grading,
        max_steps=STEP_LIMIT,
        disable_env_checker=True,
        **({} if agent.env_id != TEXT else plan.settings),
    )
    header = Header.of(env, agent.env_id)
    first = header.to_json()
    indices = range(unit.start, unit.stop)
    for result, trajectory in play_many(env, agent, agent.env_id, indices, plan.seed, budget, plan.grading):
        yield EpisodeOutput(result, first, None if trajectory is None else trajectory.sealed_json(header))
    env.close()


STEP_LIMIT = 400
"""Steps after which an episode is cut: far above what any agent needs, so that the budget, not the limit, decides."""


@lru_cache(maxsize=2)
def _read_plan(document: str) -> RunConfig:
    return RunConfig.model_validate_json(document)


@lru_cache(maxsize=2)
def _read_experience(text: str) -> Experience:
    return Experience.from_jsonl(text)


def known_agents() -> list[str]:
    """Names of all agents, for help texts."""
    return agent_names()
