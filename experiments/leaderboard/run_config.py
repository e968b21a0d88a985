"""The configuration of a leaderboard run, which determines its bytes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...agents.custom import is_custom
from ...agents.models.named import priced_for, read_model_name
from ...agents.models.prices import load_prices
from ...agents.models.simulated import is_simulated
from ...agents.registry import AgentEntry, agent_names, find_agent, read_agent_name
from ...agents.zoo.cards import is_zoo, zoo_names
from ...envs.base import base_env
from ...envs.registration import class_of, make
from ...simulators.errors import ConfigError, DataError, UnknownName
from ...simulators.ledger import Budget
from ...simulators.scenario import Scenario, load_scenario
from ...simulators.version import __version__
from ..metrics import GRADINGS
from ..training.data.experience import ExperienceSettings
from .conditions import PASS_RATE, Condition, ordered
from .suites import ALL_VIEWS, Suite, SuiteWorld
from .suites import suite as suite_named
from .tracks import TRACKS, track_of
from .weights import weights_of

FORMAT = "costgym.leaderboard/1"
MAX_SEEDS = 1000
"""Episodes of one task."""


class TrackConfig(BaseModel):
    """The part of a run that one track plays.

    Attributes:
        name: of the track, see `tracks.TRACKS`.
        env: the environment in which agents' names are looked up first; an agent may play in another view of the track.
        scenario, digest: the world, whole, and its short name.
        agents: names, in order.
        conditions: what each agent is played under.
        split: of the tasks.
        seeds: episodes of one task in a row, each under the next seed, so that it shows how often all of them pass.
        ranked_by: the figure of a row that ranks it.
        settings: further arguments of the environments, by id; those of `*` are for all views.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    env: str
    scenario: dict[str, Any]
    digest: str
    agents: tuple[str, ...]
    conditions: tuple[Condition, ...]
    split: str
    seeds: int = Field(default=1, ge=1, le=MAX_SEEDS)
    ranked_by: str = PASS_RATE
    settings: dict[str, dict[str, Any]] = {}  # pydantic copies it

    def make_env(self, env_id: str, condition: Condition, data: str | None = None) -> gym.Env[Any, Any]:
        """The environment in which an agent plays under a condition.

        Args:
            env_id: a view of the track.
            condition: one of the track's.
            data: the folder or file that the world is read from, where it lies elsewhere now.

        Raises:
            ConfigError: the view belongs to another track.
            DataError: what is read there is another world.
        """
        if track_of(env_id) != self.name:
            raise ConfigError("--agents", f"{env_id} is no environment of the track {self.name}; {self.env} is")
        kind = class_of(env_id)
        scenario, varied = kind.vary_world(self.scenario, condition.settings)
        settings = {
            **self.settings.get(ALL_VIEWS, {}),
            **self.settings.get(env_id, {}),
            **varied,
            "split": self.split,
            "budget": dict(condition.budget),
        }
        env = make(env_id, disable_env_checker=True, **kind.world_arguments(scenario, settings, data))
        base_env(env).check_world(scenario)
        return env

    @property
    def data(self) -> str | None:
        """The folder or file that the world is read from; None for a world that reads none."""
        outcomes = self.settings.get(ALL_VIEWS, {}).get("outcomes")
        source = self.scenario.get("source")
        place = source.get("data") if isinstance(source, dict) else None
        return outcomes or place

    def document(self) -> dict[str, Any]:
        """World, conditions and ranking figure, as `leaderboard.json` lists its tracks."""
        summary = class_of(self.env).world_summary(self.scenario)
        documents = self.settings.get(self.env, {}).get("documents")
        return {
            "name": self.name,
            "ranked_by": self.ranked_by,
            "seeds": self.seeds,
            **({} if documents is None else {"documents": documents}),
            "scenario": {**summary, "digest": self.digest, "split": self.split},
            "conditions": [{"track": self.name, **condition.document()} for condition in self.conditions],
        }


class RowConfig(NamedTuple):
    """A row of its own: an agent under a condition of a track.

    Attributes:
        track, agent, condition: the three.
        number: of the condition in its track.
    """

    track: TrackConfig
    agent: str
    number: int
    condition: Condition

    @property
    def key(self) -> tuple[str, str, int]:
        """Track, agent and number of the condition: names the row within its run."""
        return self.track.name, self.agent, self.number


class RunConfig(BaseModel):
    """The configuration of a leaderboard run.

    Attributes:
        suite: its name.
        tracks: what is played, each track with its own world.
        grading, seed: as `costgym leaderboard` takes them.
        model: behind agents that need one.
        search: fields of `SearchSettings` that differ from the agents' own; those under a strategy's name are for it alone.
        btp: fields of `BtpSettings` that differ from the default.
        weights: hashes of the weights of trained agents; other weights make another run.
        experience: how the past uses were collected that agents with BTP plan from; None where none do.
        documents: of the tools, full or short, where that was chosen.
        batch: episodes at a time that a local model replied to together, on which its replies may depend; None for one.
        release: of the benchmark, whose terms and worlds these are; None where none is claimed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    format: str = FORMAT
    version: str = __version__
    suite: str
    tracks: tuple[TrackConfig, ...] = Field(min_length=1)
    grading: str
    seed: int
    model: str
    search: dict[str, Any] = {}
    btp: dict[str, Any] = {}
    weights: dict[str, str] = {}
    experience: ExperienceSettings | None = Field(default=None, exclude_if=lambda value: value is None)
    documents: str | None = Field(default=None, exclude_if=lambda value: value is None)
    batch: int | None = Field(default=None, exclude_if=lambda value: value is None)
    release: str | None = Field(default=None, exclude_if=lambda value: value is None)

    def to_json(self) -> str:
        """The content of `run.json`."""
        return json.dumps(self.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n"

    @property
    def digest(self) -> str:
        """Names the configuration in short: its leaderboard says what it was made from."""
        return hashlib.blake2b(self.to_json().encode(), digest_size=16).hexdigest()

    def track(self, name: str) -> TrackConfig:
        """A track by name; raises UnknownName where the run has none of it."""
        found = next((track for track in self.tracks if track.name == name), None)
        if found is None:
            raise UnknownName("track of the run", name, [track.name for track in self.tracks])
        return found

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents of all tracks, each once."""
        return tuple(dict.fromkeys(agent for track in self.tracks for agent in track.agents))

    def rows(self) -> Iterator[RowConfig]:
        """List the rows, by track, agent and condition."""
        for track in self.tracks:
            for agent in track.agents:
                for number, condition in enumerate(track.conditions):
                    yield RowConfig(track, agent, number, condition)

    @property
    def episodes(self) -> int:
        """Count the episodes of all rows together."""
        return sum(row.condition.episodes for row in self.rows())


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
    profile: str | Path | None = None,
    vary: Mapping[str, Sequence[Any]] | None = None,
    experience: ExperienceSettings | None = None,
    seeds: int | None = None,
    documents: str | None = None,
) -> RunConfig:
    """The configuration of a run, checked before anything runs.

    Args:
        suite: what to run, by name; the other arguments replace its own choices.
        scenario, data: the tool world: a name, a file or a `Scenario`, and the folder that it reads. Of OpenCATP, `data` is the
            file of an outcome table.
        agents: names, as `costgym agents` lists them.
        budgets: as `--budgets` takes them.
        episodes: of every entry; None for the suite's, or for all instances where the world has so many and no more.
        split: train or test.
        grading: strict or judge.
        seed: same seed, same bytes.
        model: behind agents that need one; its tokens are priced by the table `prices` (see `priced_for`).
        search, btp: fields of `SearchSettings` and `BtpSettings` that differ from the agents' own.
        profile: what the OpenCATP tools cost.
        vary: settings that vary within the run, with their values, such as ``{"alpha": [0.3, 0.5]}``.
        experience: how past uses are collected for agents with BTP; None for the default.
        seeds: episodes of each task of a tool world, for pass^k up to so many k; None for the suite's. Without `episodes`, as
            many tasks are played as by the suite.
        documents: full or short documents of the tools, where agents read them; None for full ones.

    Raises:
        UnknownName: a suite, scenario, agent, split or grading is unknown; the message has the nearest ones.
        ConfigError: a number is out of range, or the suite's world does not have the option.
        DataError: the scenario or its data cannot be read.
    """
    chosen = suite_named(suite)
    if grading not in GRADINGS:
        raise UnknownName("grading", grading, GRADINGS)
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**62:
        raise ConfigError("--seed", f"expected a whole number from 0 to 2**62, got {seed!r}")
    if episodes is not None and (isinstance(episodes, bool) or not isinstance(episodes, int) or episodes < 1):
        raise ConfigError("--episodes", f"expected a positive whole number, got {episodes!r}")
    if seeds is not None and (isinstance(seeds, bool) or not isinstance(seeds, int) or not 1 <= seeds <= MAX_SEEDS):
        raise ConfigError("--seeds", f"expected a whole number from 1 to {MAX_SEEDS}, got {seeds!r}")
    asked = _Asked(
        scenario, data, budgets, episodes, split, grading, model, prices, profile, dict(vary or {}), seeds, documents
    )
    tracks: list[TrackConfig] = []
    for world, names in _worlds(chosen, agents, asked):
        tracks += _tracks_of(chosen, world, names, asked)
    place = {name: number for number, name in enumerate(TRACKS)}
    tracks.sort(key=lambda track: place[track.name])
    if len({track.name for track in tracks}) < len(tracks):
        raise ConfigError("--suite", f"{suite} plays a track twice")
    plans = any(entry_of(agent, track.name).needs_experience for track in tracks for agent in track.agents)
    return RunConfig(
        suite=suite,
        tracks=tuple(tracks),
        grading=grading,
        seed=seed,
        model=model,
        search=dict(search or {}),
        btp=dict(btp or {}),
        weights=weights_of(agent for track in tracks for agent in track.agents),
        experience=(experience or ExperienceSettings()) if plans else None,
        documents=documents,
    )


def read_run_config(folder: Path) -> RunConfig:
    """Read the configuration of the run in a folder.

    Raises:
        ConfigError: the folder does not hold a run.
        DataError: the configuration cannot be read.
    """
    path = folder / "run.json"
    if not path.is_file():
        raise ConfigError("--run", f"{folder} is not a leaderboard run: it holds no run.json")
    try:
        return RunConfig.model_validate_json(path.read_text(encoding="utf-8"))
    except ValidationError as error:
        first = error.errors()[0]
        raise DataError(path, f"is no configuration of a run: {first['msg']}", ".".join(map(str, first["loc"]))) from None
    except (ValueError, OSError) as error:
        raise DataError(path, f"is no configuration of a run: {error}") from error


def entry_of(name: str, track: str) -> AgentEntry:
    """Return the registry's entry of an agent in a track: the agent plays in one of its environments.

    Raises:
        UnknownName: there is no such agent in the track; names those that there are.
        CostGymError: a user's own agent cannot be read.
    """
    views = TRACKS[track].views
    if is_custom(name):
        found = find_agent(name)
        if track_of(found.env_id) != track:
            raise UnknownName(f"agent of the track {track}", name, agent_names(views[0]))
        return found
    for view in views:
        try:
            return find_agent(name, view)
        except UnknownName:
            continue
    return find_agent(name, views[0])


def playable(names: Sequence[str], model: str = "simulated") -> tuple[str, ...]:
    """Return the agents of a suite that play here with this model.

    Agents of the zoo play where they ship and what they play with is installed; some agents know the simulated model only.
    """
    installed = all(find_agent(name).playable for name in zoo_names())
    return tuple(
        name
        for name in names
        if (installed and name in zoo_names() if is_zoo(name) else is_simulated(model) or not find_agent(name).simulated)
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    """The arguments of `make_run_config` that replace a world's own."""

    scenario: str | Path | Scenario | None
    data: str | Path | None
    budgets: str | Sequence[Budget] | None
    episodes: int | None
    split: str
    grading: str
    model: str
    prices: str | Path | None
    profile: str | Path | None
    vary: dict[str, Sequence[Any]]
    seeds: int | None
    documents: str | None

    def refused_by(self, world: SuiteWorld) -> str:
        """An option that the world has no use for; "" where there is none."""
        kind = class_of(world.env)
        wrong = {
            "--scenario": self.scenario is not None and "scenario" not in kind.WORLD_ARGUMENTS,
            "--seeds": self.seeds is not None and "scenario" not in kind.WORLD_ARGUMENTS,
            "--prices": self.prices is not None and "scenario" not in kind.WORLD_ARGUMENTS,
            "--profile": self.profile is not None and "profile" not in kind.WORLD_ARGUMENTS,
            "--grading": self.grading != GRADINGS[0] and not kind.gradings,
            "--documents": self.documents is not None and not world.views_with("documents"),
            **{f"--{name}": name not in world.vary for name in self.vary},
        }
        return next((option for option, is_wrong in wrong.items() if is_wrong), "")

    @property
    def about_a_world(self) -> bool:
        """Some option replaces what a suite says of a world."""
        given = (self.scenario, self.data, self.budgets, self.prices, self.profile, self.seeds, self.documents)
        return bool(self.vary) or any(value is not None for value in given) or self.grading != GRADINGS[0]


def _worlds(suite: Suite, agents: Sequence[str] | None, asked: _Asked) -> list[tuple[SuiteWorld, tuple[str, ...]]]:
    """The worlds that are played, and by whom.

    Named agents play in the first world that has them. Without names, an option that replaces something of a world leaves the
    first world that knows it, alone.
    """
    if agents is None:
        fitting = [world for world in suite.worlds if not asked.refused_by(world)]
        if not fitting:
            _refuse(suite, suite.worlds[0], asked)
        return [(world, playable(world.agents, asked.model)) for world in (fitting[:1] if asked.about_a_world else fitting)]
    if not agents:
        raise ConfigError("--agents", "expected at least one agent")
    if len(set(agents)) < len(agents):
        raise ConfigError("--agents", "expected every agent once")
    found: dict[int, list[str]] = {}
    for name in agents:
        at = next((i for i, world in enumerate(suite.worlds) if _tracks_with(world, name)), None)
        if at is None:
            tracks = [track for world in suite.worlds for track in world.tracks]
            if len(tracks) == 1:
                entry_of(name, tracks[0])
            raise UnknownName("agent of the suite's tracks", name, _agents_of(tracks))
        found.setdefault(at, []).append(name)
    chosen = [(suite.worlds[at], tuple(found[at])) for at in sorted(found)]
    if asked.about_a_world and all(asked.refused_by(world) for world, _ in chosen):
        _refuse(suite, chosen[0][0], asked)
    return chosen


def _refuse(suite: Suite, world: SuiteWorld, asked: _Asked) -> None:
    raise ConfigError(asked.refused_by(world), f"the suite {suite.name} plays in {world.env}, which has no such choice")


def _agents_of(tracks: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(name for track in tracks for view in TRACKS[track].views for name in agent_names(view)))


def _tracks_with(world: SuiteWorld, name: str) -> list[str]:
    """The world's tracks that have an agent."""
    read_agent_name(name)
    found = []
    for track in world.tracks:
        try:
            entry_of(name, track)
        except UnknownName:
            continue
        found.append(track)
    return found


def _tracks_of(suite: Suite, world: SuiteWorld, agents: Sequence[str], asked: _Asked) -> list[TrackConfig]:
    """A world's tracks, one for each view that some agent plays in; the same scenario and conditions for all."""
    kind = class_of(world.env)
    fits = not asked.refused_by(world)
    seeds = asked.seeds if asked.seeds is not None and fits else world.seeds
    settings = world.settings_of(asked.grading, asked.documents)
    made: dict[str, Any]
    if "scenario" in kind.WORLD_ARGUMENTS:
        named = asked.scenario if fits and asked.scenario is not None else world.scenario
        data = asked.data if fits else None
        found = named if isinstance(named, Scenario) else load_scenario(named, data)
        if world.prices and found.tokens is None and read_model_name(asked.model) is None:
            found = load_prices().price(found, world.prices)
        made = {"scenario": priced_for(found, asked.model, asked.prices if fits else None)}
    else:
        made = {"profile": "v100" if not fits or asked.profile is None else asked.profile}
        if fits and asked.data is not None:
            settings.setdefault(ALL_VIEWS, {})["outcomes"] = str(asked.data)
    budgets = asked.budgets if asked.budgets is not None and fits else world.budgets or None
    limits = list(budgets) if budgets is not None and not isinstance(budgets, str) else _limits(budgets)
    by_track: dict[str, list[str]] = {}
    for name in agents:
        by_track.setdefault(_tracks_with(world, name)[0], []).append(name)
    tracks = []
    for track, names in by_track.items():
        env_id = TRACKS[track].views[0]
        conditions = []
        document: dict[str, Any] | None = None
        for limit, varied in product(limits, _varied(suite, world, asked.vary if fits else {})):
            of_env = kind.vary_world({}, varied)[1]
            arguments = {**settings.get(ALL_VIEWS, {}), **settings.get(env_id, {}), **of_env}
            env = base_env(make(env_id, split=asked.split, disable_env_checker=True, **made, **arguments))
            document = env.world_document()
            count = asked.episodes or (world.episodes or 0) // world.seeds * seeds or env.instances
            if count is None:
                raise ConfigError("--episodes", f"the suite {suite.name} needs a number of episodes")
            if seeds > 1:
                count = min(count, seeds * len(env.numbers))
            conditions.append(Condition(budget=limit.as_dict(), settings=varied, episodes=count))
        assert document is not None
        tracks.append(
            TrackConfig(
                name=track,
                env=env_id,
                scenario=document,
                digest=kind.world_digest(document),
                agents=tuple(names),
                conditions=tuple(ordered(conditions)),
                split=asked.split,
                seeds=seeds,
                ranked_by=world.ranked_by,
                settings=settings,
            )
        )
    return tracks


def _limits(text: str | None) -> list[Budget]:
    return [Budget()] if text is None else Budget.parse(text)


def _varied(suite: Suite, world: SuiteWorld, vary: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Every combination of the settings that vary."""
    values = {name: list(given) for name, given in world.vary.items()}
    for name, given in vary.items():
        if name not in values:
            raise ConfigError(f"--{name}", f"the suite {suite.name} plays in {world.env}, which has no such choice")
        if not given or len(set(given)) < len(given):
            raise ConfigError(f"--{name}", "expected at least one value, and every value once")
        values[name] = list(given)
    return [dict(zip(values, chosen, strict=True)) for chosen in product(*values.values())]
