"""The configuration of a leaderboard run, which determines its bytes."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from costgym.agents.base import view_of
from costgym.agents.checkpoints import FOLDER, checkpoints
from costgym.agents.custom import is_custom
from costgym.agents.models.named import priced_for, read_model_name
from costgym.agents.models.prices import load_prices
from costgym.agents.registry import AgentEntry, agent_names, find_agent, is_trained, known_agent, read_agent_name, run_folder
from costgym.envs.base import FILE_PLACES, base_env
from costgym.envs.registration import class_of, in_version, make, versions_of
from costgym.envs.world_spec import WorldSpec
from costgym.experiments.board.conditions import PASS_RATE, Condition, budget_order, grouped
from costgym.experiments.board.run_options import MAX_SEEDS, RunOptions
from costgym.experiments.board.suites import ALL_VIEWS, Suite, SuiteWorld, playable
from costgym.experiments.board.suites import suite as suite_named
from costgym.experiments.board.tracks import TRACKS
from costgym.experiments.play.experience import ExperienceSettings
from costgym.simulators import __version__
from costgym.simulators.errors import ConfigError, DataError, UnknownName
from costgym.simulators.files import json_text, private_copy, read_text
from costgym.simulators.ledger import Budget
from costgym.simulators.scenario import Scenario, TokenPrices, load_scenario

_WEIGH = ("config.json", "checkpoint.json", "adapter_config.json", "tokenizer.json")  # that determine how weights are used


def weights_of(agents: Iterable[str]) -> dict[str, str]:
    """Hash the newest checkpoint and its configuration of trained agents (`sb3:RUN`, `toolplanner:RUN`, ...), by the agent's
    name; one whose folder has no weights is left out."""
    digests = {}
    for agent in agents:
        if is_trained(agent):
            folder = run_folder(agent)
            files = _weight_files(folder)
            if any(path.suffix == ".safetensors" for path in files):
                state = hashlib.blake2b(digest_size=16)
                for path in files:
                    with path.open("rb") as file:
                        content = hashlib.file_digest(file, "blake2b").digest()
                    state.update(path.relative_to(folder).as_posix().encode() + b"\0" + content)
                digests[agent] = state.hexdigest()
    return digests


def _weight_files(run: Path) -> list[Path]:
    newest = checkpoints(run)[-1:]
    stages = {
        path.parent.resolve() for path in run.glob("*/*") if path.name == "config.json" and (path.parent / FOLDER).is_dir()
    }
    files = []
    for path in sorted(run.rglob("*")):
        inside = FOLDER in path.relative_to(run).parts
        if not path.is_file() or any(stage in path.resolve().parents for stage in stages):
            continue  # an earlier stage of the run plays under its own name
        if path.suffix == ".safetensors":
            played = not path.name.startswith(("optimizer", "training-"))
            if played and (not inside or path.parent in newest):
                files.append(path)
        elif path.name in _WEIGH and not inside:
            files.append(path)
    return files


FORMAT = "costgym.leaderboard/1"


class TrackConfig(BaseModel):
    """The part of a run that one track plays."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str  # of the track, see `tracks.TRACKS`
    env: str  # the environment in which agents' names are looked up first; an agent may play in another view of the track
    scenario: dict[str, Any]  # the world, whole
    digest: str  # its short name
    agents: tuple[str, ...]  # names, in order
    conditions: tuple[Condition, ...]  # what each agent is played under
    split: str  # of the tasks
    seeds: int = Field(default=1, ge=1, le=MAX_SEEDS)  # episodes of one task in a row, each under the next seed
    ranked_by: str = PASS_RATE  # the figure of a row that ranks it
    settings: dict[str, dict[str, Any]] = {}  # further arguments, by environment; `*`: all; pydantic copies it

    def make_env(self, env_id: str, condition: Condition, data: str | None = None) -> gym.Env[Any, Any]:
        """The environment in which an agent plays under a condition."""
        view = view_of(env_id)
        if view not in TRACKS[self.name].views:
            raise ConfigError("--agents", f"{env_id} is not an environment of the track {self.name}; {self.env} is")
        env_id = in_version(view, self.world.version)
        world, varied = class_of(env_id).world_class(self.scenario).varied(condition.settings)
        settings = {
            **self.settings.get(ALL_VIEWS, {}),
            **self.settings.get(view, {}),
            **varied,
            "split": self.split,
            "budget": dict(condition.budget) or (None if TRACKS[self.name].computes_limits else {}),
        }
        env = make(env_id, disable_env_checker=True, **world.arguments(settings, data))
        base_env(env).check_world(world.document)
        return env

    @property
    def world(self) -> WorldSpec:
        """The world of the track, before it is varied."""
        return class_of(self.env).world_class(self.scenario)

    def in_world_of(self, other: "TrackConfig") -> bool:
        """Whether the digest of another track, which may be under an older schema, is that of this track's world."""
        return other.digest in (self.digest, self.world.digest_like(other.digest))

    @property
    def data(self) -> str | None:
        """The folder or file that the world is read from; None for a world that reads none."""
        outcomes = self.settings.get(ALL_VIEWS, {}).get("outcomes")
        source = self.scenario.get("source")
        folder = source.get("data") if isinstance(source, dict) else None
        return outcomes or folder

    @property
    def portable_settings(self) -> dict[str, dict[str, Any]]:
        """The settings without the places of files, which differ between machines."""
        return {env: {k: v for k, v in settings.items() if k not in FILE_PLACES} for env, settings in self.settings.items()}

    def document(self) -> dict[str, Any]:
        """World, conditions and ranking figure, as `leaderboard.json` lists its tracks."""
        summary = self.world.summary()
        documents = self.settings.get(view_of(self.env), {}).get("documents")
        return {
            "name": self.name,
            "ranked_by": self.ranked_by,
            "seeds": self.seeds,
            **({} if documents is None else {"documents": documents}),
            "scenario": {**summary, "digest": self.digest, "split": self.split},
            "conditions": [{"track": self.name, **condition.document()} for condition in self.conditions],
        }


class RowConfig(NamedTuple):
    """A row of its own: an agent under a condition of a track."""

    track: TrackConfig
    agent: str
    number: int
    condition: Condition

    @property
    def key(self) -> tuple[str, str, int]:
        """Track, agent and number of the condition: names the row within its run."""
        return self.track.name, self.agent, self.number

    @property
    def identity(self) -> tuple[str, str, str]:
        """The same by the key of the condition, as `conditions.row_of` an episode has it."""
        return self.track.name, self.agent, self.condition.key


class CommandConfig(BaseModel):
    """An agent of a run that is a command."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str = Field(pattern=r"^command:[A-Za-z0-9][A-Za-z0-9._-]{0,59}$")  # of the agent
    words: tuple[str, ...]  # of the command, as they may be published: without the folders of absolute paths
    isolation: str = Field(pattern="^(bubblewrap|none)$")
    time_limit_s: float = Field(gt=0)  # wall seconds of an episode


class RunConfig(BaseModel):
    """The configuration of a leaderboard run; see `RunOptions` for fields of the same name."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    format: str = FORMAT
    version: str = Field(default_factory=lambda: __version__)
    suite: str  # its name
    tracks: tuple[TrackConfig, ...] = Field(min_length=1)  # what is played, each track with its own world
    grading: str
    seed: int
    model: str  # behind agents that need one
    search: dict[str, Any] = {}  # of `SearchSettings`, where not the agents' own; by strategy where for one alone
    btp: dict[str, Any] = {}  # fields of `BtpSettings` that differ from the default
    weights: dict[str, str] = {}  # hashes of the weights of trained agents; other weights make another run
    experience: ExperienceSettings | None = Field(default=None, exclude_if=lambda value: value is None)
    documents: str | None = Field(default=None, exclude_if=lambda value: value is None)
    batch: int | None = Field(default=None, exclude_if=lambda value: value is None)  # episodes that a model replied to together
    release: str | None = Field(default=None, exclude_if=lambda value: value is None)  # that is claimed
    command: CommandConfig | None = Field(default=None, exclude_if=lambda value: value is None)

    def to_json(self) -> str:
        """The content of `run.json`."""
        return json_text(self.model_dump(mode="json"))

    @property
    def digest(self) -> str:
        """Names the configuration in short: its leaderboard says what it was made from."""
        return hashlib.blake2b(self.to_json().encode(), digest_size=16).hexdigest()

    def track(self, name: str) -> TrackConfig:
        """A track by name; raises UnknownName where the run has none of it."""
        for track in self.tracks:
            if track.name == name:
                return track
        raise UnknownName("track of the run", name, [track.name for track in self.tracks])

    @property
    def only_first(self) -> "RunConfig":
        """The same run with its first track alone."""
        return self.model_copy(update={"tracks": self.tracks[:1]})

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


def make_run_config(*choices: Any, **named: Any) -> RunConfig:
    """The configuration of a run from `RunOptions` or their fields, checked before anything runs; raises UnknownName,
    ConfigError or DataError for a name, a number or a file that it cannot use."""
    options = choices[0] if choices and isinstance(choices[0], RunOptions) else None
    options = options or RunOptions(**dict(zip(RunOptions.model_fields, choices, strict=False)), **named)
    chosen = suite_named(options.suite)
    tracks = [track for world, names in _worlds(chosen, options) for track in _tracks_of(chosen, world, names, options)]
    tracks.sort(key=lambda track: list(TRACKS).index(track.name))
    if len({track.name for track in tracks}) < len(tracks):
        raise ConfigError("--suite", f"{options.suite} plays a track twice")
    plans = any(entry_of(agent, track.name).needs_experience for track in tracks for agent in track.agents)
    return RunConfig(
        suite=options.suite,
        tracks=tuple(tracks),
        grading=options.grading,
        seed=options.seed,
        model=options.model,
        search=dict(options.search or {}),
        btp=dict(options.btp or {}),
        weights=weights_of(agent for track in tracks for agent in track.agents),
        experience=(options.experience or ExperienceSettings()) if plans else None,
        documents=options.documents,
    )


@contextmanager
def copied_run(folder: Path, only: Sequence[str] = ()) -> Iterator[Path]:
    """`private_copy` of a folder that is to hold a run; raises ConfigError if it holds none."""
    if not (folder / "run.json").is_file():
        raise ConfigError("--run", f"{folder} is not a leaderboard run: it holds no run.json")
    with private_copy(folder, only) as copy:
        yield copy


def read_run_config(folder: Path) -> RunConfig:
    """Read the configuration of the run in a folder."""
    path = folder / "run.json"
    if not path.is_file():
        raise ConfigError("--run", f"{folder} is not a leaderboard run: it holds no run.json")
    try:
        return RunConfig.model_validate_json(read_text(path, follow=False))
    except ValidationError as error:
        first = error.errors()[0]
        raise DataError(path, f"is not the configuration of a run: {first['msg']}", ".".join(map(str, first["loc"]))) from None
    except (ValueError, OSError) as error:
        raise DataError(path, f"is not the configuration of a run: {error}") from error


def entry_of(name: str, track: str) -> AgentEntry:
    """The registry's entry of an agent, which plays in one of the track's environments; raises UnknownName where there is none,
    CostGymError where a user's own agent cannot be read."""
    entry = _known_entry(name, track)
    if entry is None:
        view = TRACKS[track].views[0]
        if is_custom(name):
            raise UnknownName(f"agent of the track {track}", name, agent_names(view))
        return find_agent(name, view)
    return entry


def _known_entry(name: str, track: str) -> AgentEntry | None:
    """`entry_of`, but None where the track has no such agent."""
    views = TRACKS[track].views
    if is_custom(name):
        entry = find_agent(name)
        return entry if entry.env_id in views else None
    for view in views:
        with suppress(UnknownName):
            if (known := known_agent(name, view)) is not None:
                return known
    return None


def _worlds(suite: Suite, options: RunOptions) -> list[tuple[SuiteWorld, tuple[str, ...]]]:
    """The worlds that are played, and by whom. Named agents play in the first world that has them. Without names, an option
    that replaces something of a world leaves the first world that knows it, alone."""
    agents = options.agents
    if agents is None:
        fitting = [world for world in suite.worlds if not options.refused_by(world)]
        if not fitting:
            _refuse(suite, suite.worlds[0], options)
        return [
            (world, playable(world.agents, options.model, options.play_zoo))
            for world in (fitting[:1] if options.about_a_world else fitting)
        ]
    if not agents:
        raise ConfigError("--agents", "expected at least one agent")
    if len(set(agents)) < len(agents):
        raise ConfigError("--agents", "expected every agent once")
    agents_of_world: dict[int, list[str]] = {}
    for name in agents:
        at = next((i for i, world in enumerate(suite.worlds) if _tracks_with(world, name)), None)
        if at is None:
            tracks = [track for world in suite.worlds for track in world.tracks]
            if len(tracks) == 1:
                entry_of(name, tracks[0])
            names = dict.fromkeys(n for track in tracks for view in TRACKS[track].views for n in agent_names(view))
            raise UnknownName("agent of the suite's tracks", name, list(names))
        agents_of_world.setdefault(at, []).append(name)
    named = [(suite.worlds[at], tuple(agents_of_world[at])) for at in sorted(agents_of_world)]
    if options.about_a_world and all(options.refused_by(world) for world, _ in named):
        _refuse(suite, named[0][0], options)
    return named


def _refuse(suite: Suite, world: SuiteWorld, options: RunOptions) -> None:
    raise ConfigError(options.refused_by(world), f"the suite {suite.name} plays in {world.env}, which has no such choice")


def _tracks_with(world: SuiteWorld, name: str) -> list[str]:
    """The world's tracks that have an agent."""
    read_agent_name(name)
    tracks = []
    for track in world.tracks:
        with suppress(UnknownName):  # of a user's file without such an agent
            if _known_entry(name, track) is not None:
                tracks.append(track)
    return tracks


def _tracks_of(suite: Suite, world: SuiteWorld, agents: Sequence[str], options: RunOptions) -> list[TrackConfig]:
    """A world's tracks, one for each view that some agent plays in; the same scenario and conditions for all."""
    kind = class_of(world.env)
    fits = not options.refused_by(world)
    seeds = options.seeds if options.seeds is not None and fits else world.seeds
    settings = world.settings_of(options.grading, options.documents)
    made: dict[str, Any]
    known = versions_of(world.env)
    version = world.world if options.world is None else options.world
    version = version if version in known else known[0]
    if kind.world_kind == "tools":
        named = options.scenario if fits and options.scenario is not None else world.scenario
        data = options.data if fits else None
        scenario = named if isinstance(named, Scenario) else load_scenario(named, data)
        scenario = scenario.in_world(version, *(known if options.world is None else ()))
        version = scenario.world
        if scenario.tokens is None and read_model_name(options.model) is None:
            scenario = _with_prices(scenario, world)
        made = {"scenario": priced_for(scenario, options.model, options.prices if fits else None)}
    elif "profile" not in kind.world_class.arguments_of_world:
        made = {}
    else:
        made = {"profile": "v100" if not fits or options.profile is None else options.profile}
        if fits and options.data is not None:
            settings.setdefault(ALL_VIEWS, {})["outcomes"] = str(options.data)
    budgets = options.budgets if options.budgets is not None and fits else world.budgets or None
    limits = [Budget()] if budgets is None else Budget.parse(budgets) if isinstance(budgets, str) else list(budgets)
    tracks = []
    for track, names in grouped(agents, lambda name: _tracks_with(world, name)[0]).items():
        view = TRACKS[track].views[0]
        env_id = in_version(view, version)
        conditions = []
        spec: WorldSpec | None = None
        for limit, varied in product(limits, _varied(suite, world, options.vary or {} if fits else {})):
            of_env = kind.world_class({}).varied(varied)[1]
            arguments = {**settings.get(ALL_VIEWS, {}), **settings.get(view, {}), **of_env}
            env = base_env(make(env_id, split=options.split, disable_env_checker=True, **made, **arguments))
            spec = env.world_spec()
            count = options.episodes or (world.episodes or 0) // world.seeds * seeds or env.instances
            if count is None:
                raise ConfigError("--episodes", f"the suite {suite.name} needs a number of episodes")
            if seeds > 1:
                count = min(count, seeds * len(env.numbers))
            conditions.append(Condition(budget=limit.as_dict(), settings=varied, episodes=count))
        assert spec is not None
        tracks.append(
            TrackConfig(
                name=track,
                env=env_id,
                scenario=dict(spec.document),
                digest=spec.digest,
                agents=tuple(names),
                conditions=tuple(sorted(conditions, key=lambda condition: budget_order(condition.budget))),
                split=options.split,
                seeds=seeds,
                ranked_by=world.ranked_by,
                settings=settings,
            )
        )
    return tracks


def _with_prices(scenario: Scenario, world: SuiteWorld) -> Scenario:
    """A scenario whose simulated model pays for tokens, or does not, as the suite says; version 1 has prices by default."""
    if world.prices and not scenario.world:
        return load_prices().price(scenario, world.prices)
    if scenario.world and not world.prices and "text" in world.tracks:
        return scenario.model_copy(update={"tokens": TokenPrices(input=0.0, output=0.0)})
    return scenario


def _varied(suite: Suite, world: SuiteWorld, vary: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Every combination of the settings that vary."""
    values = {name: list(choices) for name, choices in world.vary.items()}
    for name, choices in vary.items():
        if name not in values:
            raise ConfigError(f"--{name}", f"the suite {suite.name} plays in {world.env}, which has no such choice")
        if not choices or len(set(choices)) < len(choices):
            raise ConfigError(f"--{name}", "expected at least one value, and every value once")
        values[name] = list(choices)
    return [dict(zip(values, chosen, strict=True)) for chosen in product(*values.values())]


def world_of(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """A world's document without the place of its files."""
    source = scenario.get("source")
    if not isinstance(source, Mapping):
        return dict(scenario)
    return {**scenario, "source": {name: value for name, value in source.items() if name not in FILE_PLACES}}
