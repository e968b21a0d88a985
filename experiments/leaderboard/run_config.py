"""The configuration of a leaderboard run, which determines its bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import gymnasium as gym
from pydantic import BaseModel, ConfigDict, ValidationError

from ...agents.custom import is_custom
from ...agents.models.named import priced_for
from ...agents.registry import AgentEntry, find_agent
from ...envs.base import BaseEnv, base_env
from ...envs.registration import class_of, make, views_of
from ...simulators.errors import ConfigError, DataError, UnknownName
from ...simulators.ledger import Budget
from ...simulators.scenario import Scenario, load_scenario
from ...simulators.version import __version__
from ..metrics import GRADINGS
from .conditions import PASS_RATE, Condition, ordered
from .suites import Suite
from .suites import suite as suite_named
from .weights import weights_of

FORMAT = "costgym.leaderboard/1"
ALL_VIEWS = "*"


class RunConfig(BaseModel):
    """The configuration of a leaderboard run.

    Attributes:
        suite: name of the suite.
        env: id of the environment in which agents' names are looked up; an agent may play in another view of the same world.
        scenario, digest: document of the world, and its digest.
        agents: names of the agents, in order.
        conditions: conditions that each agent plays under.
        split, grading, seed: options of `costgym leaderboard`.
        ranked_by: figure of a row that ranks it.
        model: language model of agents that need one.
        settings: further arguments of the environments, by id; those of `*` hold for all views.
        search, btp: fields of `SearchSettings` and `BtpSettings` that differ from the agents' own.
        weights: hashes of the weights of trained agents; other weights make another run.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    format: str = FORMAT
    version: str = __version__
    suite: str
    env: str
    scenario: dict[str, Any]
    digest: str
    agents: tuple[str, ...]
    conditions: tuple[Condition, ...]
    split: str
    grading: str
    seed: int
    ranked_by: str = PASS_RATE
    model: str
    settings: dict[str, dict[str, Any]] = {}  # pydantic copies it
    search: dict[str, Any] = {}
    btp: dict[str, Any] = {}
    weights: dict[str, str] = {}

    def to_json(self) -> str:
        """The content of `run.json`."""
        return json.dumps(self.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n"

    def entries(self) -> Iterator[tuple[str, int, Condition]]:
        """The entries, one per row: agent, number of the condition, condition."""
        for agent in self.agents:
            for index, condition in enumerate(self.conditions):
                yield agent, index, condition

    @property
    def episodes(self) -> int:
        """Of all entries together."""
        return sum(condition.episodes for _, _, condition in self.entries())

    def make_env(self, env_id: str, condition: Condition, data: str | None = None) -> gym.Env[Any, Any]:
        """The environment in which an agent plays under a condition.

        Args:
            env_id: a view of the run's world.
            condition: one of the run's.
            data: the folder or file that the world is read from, where it lies elsewhere now.

        Raises:
            ConfigError: the view is of another world.
            DataError: what is read there is another world.
        """
        kind = class_of(env_id)
        if kind.world_kind != class_of(self.env).world_kind:
            raise ConfigError("--agents", f"{env_id} is no view of the world of the suite {self.suite}, {self.env} is")
        settings = {
            **self.settings.get(ALL_VIEWS, {}),
            **self.settings.get(env_id, {}),
            **condition.settings,
            "split": self.split,
            "budget": dict(condition.budget),
        }
        env = make(env_id, disable_env_checker=True, **kind.world_arguments(self.scenario, settings, data))
        base_env(env).check_world(self.scenario)
        return env


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
    names = _agents(chosen, agents)
    kind = class_of(chosen.env)
    settings = {env_id: dict(given) for env_id, given in chosen.settings.items()}
    _refuse_what_the_world_has_not(chosen, kind, scenario, profile, grading, prices)
    if kind.gradings:
        settings.setdefault(ALL_VIEWS, {})["grading"] = grading
    world: dict[str, Any]
    if "scenario" in kind.WORLD_ARGUMENTS:
        found = scenario if isinstance(scenario, Scenario) else load_scenario(scenario or chosen.scenario, data)
        world = {"scenario": priced_for(found, model, prices)}
    else:
        world = {"profile": "v100" if profile is None else profile}
        if data is not None:
            settings.setdefault(ALL_VIEWS, {})["outcomes"] = str(data)
    default = chosen.budgets or None
    limits = list(budgets) if budgets is not None and not isinstance(budgets, str) else _limits(budgets or default)
    conditions = []
    document: dict[str, Any] | None = None
    for limit, varied in product(limits, _varied(chosen, vary)):
        arguments = {**settings.get(ALL_VIEWS, {}), **settings.get(chosen.env, {}), **varied}
        env = base_env(make(chosen.env, split=split, disable_env_checker=True, **world, **arguments))
        document = env.world_document()
        count = episodes or chosen.episodes or env.instances
        if count is None:
            raise ConfigError("--episodes", f"the suite {suite} needs a number of episodes")
        conditions.append(Condition(budget=limit.as_dict(), settings=varied, episodes=count))
    assert document is not None
    return RunConfig(
        suite=suite,
        env=chosen.env,
        scenario=document,
        digest=kind.world_digest(document),
        agents=names,
        conditions=tuple(ordered(conditions)),
        split=split,
        grading=grading,
        seed=seed,
        ranked_by=chosen.ranked_by,
        model=model,
        settings=settings,
        search=dict(search or {}),
        btp=dict(btp or {}),
        weights=weights_of(names),
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


def entry_of(name: str, env_id: str) -> AgentEntry:
    """What is known of an agent in a world: it plays in this environment, or in another view of the same world.

    Raises:
        UnknownName: there is no such agent in any view of the world; names those of this one.
        CostGymError: a user's own agent cannot be read.
    """
    if is_custom(name):
        return find_agent(name)
    for view in views_of(env_id):
        try:
            return find_agent(name, view)
        except UnknownName:
            continue
    return find_agent(name, env_id)


def _agents(suite: Suite, agents: Sequence[str] | None) -> tuple[str, ...]:
    names = tuple(agents if agents is not None else suite.agents)
    if not names:
        raise ConfigError("--agents", "expected at least one agent")
    for name in names:
        entry_of(name, suite.env)
    if len(set(names)) < len(names):
        raise ConfigError("--agents", "expected every agent once")
    return names


def _refuse_what_the_world_has_not(
    suite: Suite, kind: type[BaseEnv[Any, Any]], scenario: object, profile: object, grading: str, prices: object
) -> None:
    given = {
        "--scenario": scenario is not None and "scenario" not in kind.WORLD_ARGUMENTS,
        "--prices": prices is not None and "scenario" not in kind.WORLD_ARGUMENTS,
        "--profile": profile is not None and "profile" not in kind.WORLD_ARGUMENTS,
        "--grading": grading != GRADINGS[0] and not kind.gradings,
    }
    for option, wrong in given.items():
        if wrong:
            raise ConfigError(option, f"the suite {suite.name} plays in {suite.env}, which has no such choice")


def _limits(text: str | None) -> list[Budget]:
    return [Budget()] if text is None else Budget.parse(text)


def _varied(suite: Suite, vary: Mapping[str, Sequence[Any]] | None) -> list[dict[str, Any]]:
    """Every combination of the settings that vary."""
    values = {name: list(given) for name, given in suite.vary.items()}
    for name, given in (vary or {}).items():
        if name not in values:
            raise ConfigError(f"--{name}", f"the suite {suite.name} plays in {suite.env}, which has no such choice")
        if not given or len(set(given)) < len(given):
            raise ConfigError(f"--{name}", "expected at least one value, and every value once")
        values[name] = list(given)
    return [dict(zip(values, chosen, strict=True)) for chosen in product(*values.values())]
