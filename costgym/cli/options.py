"""Options that several commands share."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import AfterValidator

from costgym.cli.output import STANDARD_OUTPUT
from costgym.experiments.play.options import (
    Batch,
    Cache,
    Concurrency,
    Data,
    Documents,
    Enforcement,
    Jobs,
    JudgeModel,
    JudgePrices,
    Limits,
    Model,
    Prices,
    ScenarioName,
    SpendLimit,
    Split,
)  # fmt: skip
from costgym.simulators.bounds import Settings, option
from costgym.simulators.errors import ConfigError, DataError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from costgym.experiments.play.costs.spending import Spending
    from costgym.experiments.play.execution.engine import Engine
    from costgym.simulators.scenario import Scenario


def _with_its_folder(file: Path | None) -> Path | None:
    """Make a file's folder before anything is played, so that no result is lost for want of it."""
    if file is not None and file != STANDARD_OUTPUT:
        from costgym.simulators.files import make_folder

        make_folder(file.parent, "--json")
    return file


def expect_path(path: Path) -> Path:
    """Check that a path exists before the modules that read it are imported, which takes a second."""
    if not path.exists():
        raise DataError(path, "there is no such file or folder")
    return path


EXISTS = AfterValidator(expect_path)
"""Beside the description of an argument that names a file or folder to read."""
Quiet = Annotated[bool, option("No progress bar, no table.", "", "--quiet")]
JsonFile = Annotated[
    Path | None,
    AfterValidator(_with_its_folder),
    option("Also write the figures as JSON; - for standard output.", "FILE", "--json"),
]
StoreUrl = Annotated[
    str | None, option("SQL store of results: sqlite:///FILE, a file, or postgresql://HOST/DATABASE", "URL", "--store")
]
EnvName = Annotated[
    str | None,
    option(
        "An environment of `costgym envs`; by default the agent's own, in the version that the scenario states or the newest.",
        "ID",
    ),
]


def whole_id(name: str) -> str:
    """The id of an environment, whose `costgym/` may be left out; raises UnknownName where there is none."""
    from costgym.envs.registration import check_environment

    env_id = name if "/" in name else f"costgym/{name}"
    check_environment(env_id)
    return env_id


WORLD_CHOICES = ("grading", "enforcement", "max_steps", "tasks", "alpha", "profile", "documents", "tool_order", "concurrent")
"""Options that are arguments of an environment under the same name."""


class WorldOptions(Settings):
    """The options about a world; None for options that were not given."""

    heading: ClassVar[str] = "World"

    scenario: ScenarioName = None
    data: Data = None
    tasks: Annotated[str | None, option("OpenCATP: sequential, nonsequential or all (the default).")] = None
    alpha: Annotated[float | None, option("OpenCATP: weight of the score; 0.5 by default.")] = None
    profile: Annotated[str | None, option("OpenCATP: profile of the tools' costs; v100 by default.", "NAME|FILE")] = None
    budget: Limits = None
    split: Split = "test"
    grading: Annotated[
        str | None, option("Grade that counts as a pass: strict (every fact, the default) or judge, a seeded stand-in.")
    ] = None
    enforcement: Enforcement = None
    documents: Documents = None
    tool_order: Annotated[
        str | None, option("Order of the tools on offer: task (each task's own, the default), or stable, by name.")
    ] = None
    concurrent: Annotated[bool | None, option("Let calls run side by side, in environments that support it.")] = None
    max_steps: Annotated[int | None, option("Steps after which an episode is truncated.")] = None

    def env_id(self, named: str | None, view: str, first: int | None = None) -> str:
        """The id that is played: the named one, or that of the view by `default_id`; raises UnknownName where there is none."""
        from costgym.envs.registration import default_id

        return default_id(view, self._scenario(view), first) if named is None else whole_id(named)

    def _scenario(self, env_id: str) -> "Scenario | None":
        """The scenario that was given, or the environment's default; None for an environment that plays none."""
        from costgym.envs.registration import parameters_of
        from costgym.simulators.scenario import load_scenario

        known = parameters_of(env_id)
        name = "scenario" in known and (self.scenario or known["scenario"])
        return load_scenario(name, self.data) if name else None

    def arguments(self, env_id: str, model: str = "simulated", prices: Path | None = None) -> dict[str, Any]:
        """The arguments of an environment; raises ConfigError if the environment does not have an option that was given."""
        from costgym.agents.models.named import priced_for
        from costgym.envs.registration import class_of, parameters_of

        known = parameters_of(env_id)
        made: dict[str, Any] = {"split": self.split, "budget": self.budget}
        chosen = {name: getattr(self, name) for name in WORLD_CHOICES}
        made |= {name: value for name, value in chosen.items() if value is not None}
        if (scenario := self._scenario(env_id)) is not None:
            worlds = class_of(env_id).worlds
            if 0 not in worlds:  # before it is priced: prices have more classes in later versions
                scenario = scenario.in_world(*worlds)
            made = {**made, "scenario": priced_for(scenario, model, prices)}
        else:
            texts = {"scenario": self.scenario, "prices": prices}
            made |= {name: str(value) for name, value in texts.items() if value is not None}
            if "tasks" in known:
                made = {"tasks": "all", **made, "outcomes": self.data}
            elif self.data is not None:
                raise ConfigError("--data", f"{env_id} reads no folder")
        for name in made:
            if name not in known:
                others = f"has no such option; choose another environment with --env: {env_id} takes {', '.join(sorted(known))}"
                raise ConfigError(f"--{name.replace('_', '-')}", f"{env_id} {others}")
        return made


class ModelOptions(Settings):
    """The options about the language model of agents."""

    heading: ClassVar[str] = "Language model"

    model: Model = "simulated"
    prices: Prices = None
    cache: Cache = None
    batch: Batch = 1
    concurrency: Concurrency = 8

    def keep_replies(self, judge: str | None = None) -> None:
        """Make every process of this run cache the replies of a real model, and of the judge, in the folder `cache`."""
        from costgym.agents.models.named import CACHE_VARIABLE, read_model_name

        if self.cache is None:
            return
        if read_model_name(self.model) is None and judge is None:
            raise ConfigError("--cache", f"{self.model} is not a real model, so there are no replies to cache")
        os.environ[CACHE_VARIABLE] = str(self.cache.resolve())


class SpendingOptions(ModelOptions):
    """`ModelOptions`, with a limit on what a real model may cost."""

    spend_limit: SpendLimit = None

    def spending(self, announce: Callable[[str], None], judge: str | None = None) -> "Spending | None":
        """Count the dollars that a real model, or the judge beside a simulated one, costs; None for a model that costs none and
        has no limit. Raises ConfigError if the limit is not above 0, or has no real model."""
        from costgym.agents.models.named import read_model_name
        from costgym.experiments.play.costs.spending import Spending

        if (self.spend_limit is None or judge is not None) and read_model_name(self.model) is None:
            return None
        return Spending(self.model, self.prices, self.spend_limit, announce)


class JudgedOptions(SpendingOptions):
    """`SpendingOptions`, with a language model that judges answers."""

    judge: JudgeModel = None
    judge_prices: JudgePrices = None


def requests_and_cost(spending: "Spending") -> str:
    """What a progress bar says of a real model: its requests in flight, and its cost so far."""
    from costgym.agents.models.traffic import TRAFFIC
    from costgym.experiments.play.costs.spending import dollars

    requests = f"{TRAFFIC.in_flight} requests in flight, " if TRAFFIC.peak else ""
    return f"{requests}{dollars(spending.spent_usd)} so far"


class WorkerOptions(Settings):
    """The options about where episodes are played."""

    heading: ClassVar[str] = "Workers"
    default_jobs: ClassVar[int | None] = 1  # local processes where no number is given; None for one per processor
    jobs: Jobs = None
    engine: Annotated[str, option("local, or ray: a Ray cluster. Results do not depend on it.")] = "local"
    ray_address: Annotated[str | None, option("Running cluster; without it, one is started here.", "HOST:PORT")] = None

    def open(self, model: str = "simulated", batch: int = 1, concurrency: int = 8) -> "AbstractContextManager[Engine]":
        """Open the engine, whose workers get the environment variables of the model. With a batch above 1 its replies are made
        together, in this process. Raises ConfigError for options that do not go together, or a batch of a model that cannot
        reply to several."""
        from contextlib import nullcontext

        from costgym.agents.models.named import many_at_once, variables_of
        from costgym.experiments.play.execution.concurrent import Batched, Concurrent, on_a_server
        from costgym.experiments.play.execution.engine import open_engine

        if batch == 1 and on_a_server(model):
            if self.engine == "local":
                return nullcontext(Concurrent(concurrency))
            # an episode asks for one reply at a time, so as many tasks are as many requests
            tasks = min(self.jobs or concurrency, concurrency)
            return open_engine(self.engine, tasks, self.ray_address, variables_of(model))
        if batch == 1:
            jobs = self.default_jobs if self.jobs is None and self.engine == "local" else self.jobs
            return open_engine(self.engine, jobs, self.ray_address, variables_of(model))
        if self.jobs is not None or self.engine != "local":
            raise ConfigError("--batch", "expected neither --jobs nor --engine: the batch is played in this process")
        return nullcontext(Batched(many_at_once(model), batch))


class ManyWorkerOptions(WorkerOptions):
    """`WorkerOptions`, with all processors by default."""

    jobs: Annotated[int | None, option("Processes; all processors by default. Results do not depend on it.")] = None
    default_jobs: ClassVar[int | None] = None
