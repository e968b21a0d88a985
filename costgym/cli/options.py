"""Options that several commands share."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin, get_type_hints

import typer

from ..simulators.errors import ConfigError
from ..simulators.ledger import Budget

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from ..experiments.play.execution.engine import Engine


def _with_its_folder(file: Path | None) -> Path | None:
    """Make a file's folder before anything is played, so that no result is lost for want of it."""
    if file is not None:
        from ..experiments.play.files import make_folder

        make_folder(file.parent, "--json")
    return file


Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed; equal seeds give equal bytes.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar, no table.")]
JsonFile = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", callback=_with_its_folder, help="Also write the figures as JSON."),
]
ScenarioName = Annotated[
    str | None, typer.Option("--scenario", metavar="NAME|FILE", help="A scenario of `costgym scenarios`, or a YAML file.")
]
Data = Annotated[Path | None, typer.Option("--data", metavar="DIR", help="Folder of the scenario's data.")]
Split = Annotated[str, typer.Option("--split", help="train or test.")]
BudgetText = Annotated[
    str | None, typer.Option("--budgets", "--budget", metavar="LIMITS", help="price=10,20,40 or price=20;seconds=60")
]


def _full_name(name: str) -> str:
    """The name of a model as runs record it, with the settings of a model file written out."""
    if name.rpartition(":")[0].endswith((".yaml", ".yml")):
        from ..agents.models.named import full_name

        return full_name(name)
    return name


Model = Annotated[
    str,
    typer.Option(
        "--model",
        callback=_full_name,
        help="Language model of agents: simulated, openai:NAME, local:FOLDER[,adapter=DIR], or FILE.yaml:NAME of a model file.",
    ),
]
Prices = Annotated[
    Path | None, typer.Option("--prices", metavar="FILE", help="Prices of a real model's tokens: a dated YAML table.")
]
ExperienceText = Annotated[
    str | None,
    typer.Option("--experience", metavar="EXPLORER:USES", help="What BTP plans from, such as dfsdt:5: past uses a tool."),
]
Cache = Annotated[
    Path | None,
    typer.Option("--cache", metavar="DIR", help="Cache of a real model's replies, which are charged too."),
]
SpendLimit = Annotated[
    float | None,
    typer.Option("--spend-limit", metavar="USD", help="Stop before a real model's tokens cost more, earlier runs included."),
]
StoreUrl = Annotated[
    str | None,
    typer.Option("--store", metavar="URL", help="SQL store of results: sqlite:///FILE, a file, or postgresql://HOST/DATABASE"),
]
Batch = Annotated[
    int,
    typer.Option("--batch", min=1, help="Episodes at a time that a greedy local model replies to together, in this process."),
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", help="Processes, 1 by default; on a cluster, tasks in flight. Results do not depend on it."),
]
EngineName = Annotated[str, typer.Option("--engine", help="local, or ray: a Ray cluster. Results do not depend on it.")]
RayAddress = Annotated[
    str | None,
    typer.Option("--ray-address", metavar="HOST:PORT", help="Running cluster; without it, one is started here."),
]
Grading = Annotated[
    str | None, typer.Option("--grading", help="Grade that counts as a pass: strict (every fact, the default) or judge.")
]
Enforcement = Annotated[
    str | None,
    typer.Option("--enforcement", help="What a limit does: refuse, terminate or record; each environment has a default."),
]
Documents = Annotated[
    str | None, typer.Option("--documents", help="Text view: full documents of the tools (the default), or short ones.")
]
EnvName = Annotated[
    str | None, typer.Option("--env", metavar="ID", help="An environment of `costgym envs`; the agent's own by default.")
]
Tasks = Annotated[str | None, typer.Option("--tasks", help="OpenCATP: sequential, nonsequential or all (the default).")]
Alpha = Annotated[float | None, typer.Option("--alpha", help="OpenCATP: weight of the score; 0.5 by default.")]
PlanProfile = Annotated[
    str | None, typer.Option("--profile", metavar="NAME|FILE", help="OpenCATP: profile of the tools' costs; v100 by default.")
]


# -- groups of options -------------------------------------------------------------------------------------------------------


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for each field of its parameters that are dataclasses.

    A field is described by `typer.Option` or by `experiments.play.options.About`; a field without either is no option. The
    parameter's default, if it has one, says what the options are where none is given.
    """
    groups: dict[str, tuple[Any, list[str]]] = {}
    shown: list[inspect.Parameter] = []
    hints = get_type_hints(command, include_extras=True)
    for parameter in inspect.signature(command).parameters.values():
        kind, usual = hints[parameter.name], parameter.default
        if not is_dataclass(kind):
            shown.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=kind))
            continue
        types = get_type_hints(kind, include_extras=True)
        names = [field.name for field in fields(kind) if get_origin(types[field.name]) is Annotated]
        groups[parameter.name] = kind, names
        for field in fields(kind):
            if field.name in names:
                default = field.default if usual is inspect.Parameter.empty else getattr(usual, field.name)
                made = option_of(field.name, types[field.name], default)
                shown.append(inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=made))

    usual_values = {each.name: each.default for each in shown if each.default is not inspect.Parameter.empty}

    def run(**given: Any) -> None:
        values = usual_values | given
        built = {name: kind(**{each: values.pop(each) for each in names}) for name, (kind, names) in groups.items()}
        command(**values, **built)

    run.__name__, run.__doc__, run.__module__ = command.__name__, command.__doc__, command.__module__
    run.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    return run


def option_of(name: str, annotation: Any, default: Any) -> Any:
    """The annotation that makes Typer show a field as an option."""
    about = get_args(annotation)[1]
    if not hasattr(about, "names"):
        return annotation  # it is Typer's own
    form = plain_type(get_args(annotation)[0])
    spelled = about.names or (f"--{name.replace('_', '-')}",)
    option = typer.Option(*spelled, help=about.help, metavar=about.metavar or None)
    return Annotated[form if default is not None else form | None, option]


def plain_type(form: Any) -> Any:
    """The type of an option: the first of bool, int, float, str and Path that occurs in the field's type, or else text."""
    if form in (bool, int, float, str, Path):
        return form
    if get_origin(form) in (Union, UnionType, Annotated):
        return plain_type(get_args(form)[0])
    return str


WORLD_CHOICES = ("grading", "enforcement", "max_steps", "tasks", "alpha", "profile", "documents")
"""Options that are arguments of an environment under the same name."""


@dataclass(frozen=True, slots=True)
class WorldOptions:
    """The options about a world; None for options that were not given."""

    scenario: ScenarioName = None
    data: Data = None
    tasks: Tasks = None
    alpha: Alpha = None
    profile: PlanProfile = None
    budget: BudgetText = None
    split: Split = "test"
    grading: Grading = None
    enforcement: Enforcement = None
    documents: Documents = None
    max_steps: Annotated[int | None, typer.Option("--max-steps", help="Steps after which an episode is truncated.")] = None

    def limits(self) -> dict[str, float] | None:
        """The limits of the budget, by resource."""
        return None if self.budget is None else Budget.one(self.budget).as_dict()

    def arguments(self, env_id: str, model: str = "simulated", prices: Path | None = None) -> dict[str, Any]:
        """The arguments of an environment.

        Args:
            env_id: id of the environment.
            model: name of the model whose tokens the world prices.
            prices: table of real models' prices.

        Raises:
            ConfigError: the environment does not have an option that was given.
        """
        from ..agents.models.named import priced_for
        from ..envs.registration import parameters_of
        from ..simulators.scenario import load_scenario

        known = parameters_of(env_id)
        made: dict[str, Any] = {"split": self.split, "budget": self.limits()}
        given = {name: getattr(self, name) for name in WORLD_CHOICES}
        made |= {name: value for name, value in given.items() if value is not None}
        if "scenario" in known:
            scenario = load_scenario(self.scenario or known["scenario"], self.data)
            made = {**made, "scenario": priced_for(scenario, model, prices)}
        else:
            texts = {"scenario": self.scenario, "prices": prices}
            made |= {name: str(value) for name, value in texts.items() if value is not None}
            made = {"tasks": "all", **made, "outcomes": None if self.data is None else str(self.data)}
        for name in made:
            if name not in known:
                others = f"has no such choice; --env names another environment: {env_id} takes {', '.join(sorted(known))}"
                raise ConfigError(f"--{name.replace('_', '-')}", f"{env_id} {others}")
        return made


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """The options about the language model of agents."""

    model: Model = "simulated"
    prices: Prices = None
    cache: Cache = None
    batch: Batch = 1

    def keep_replies(self) -> None:
        """Make every process of this run cache a real model's replies in the folder `cache`."""
        keep_replies(self.cache, self.model)


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """The options about where episodes are played."""

    jobs: Jobs = None
    engine: EngineName = "local"
    ray_address: RayAddress = None

    def open(self, model: str = "simulated", default: int | None = 1, batch: int = 1) -> AbstractContextManager[Engine]:
        """The engine, as `output.workers` opens it."""
        from .output import workers

        return workers(self.engine, self.jobs, self.ray_address, model, default, batch)


def keep_replies(cache: Path | None, model: str) -> None:
    """Make every process of this run cache a real model's replies in a folder."""
    from ..agents.models.named import CACHE_VARIABLE, read_model_name

    if cache is None:
        return
    if read_model_name(model) is None:
        raise ConfigError("--cache", f"{model} is no real model; there is nothing to keep")
    os.environ[CACHE_VARIABLE] = str(cache.resolve())
