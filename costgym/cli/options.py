"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def _with_its_folder(file: Path | None) -> Path | None:
    """Make a file's folder before anything is played, so that no result is lost for want of it."""
    if file is not None:
        from ..experiments.files import make_folder

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
