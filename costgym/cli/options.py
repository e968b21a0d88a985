"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Seed = Annotated[int, typer.Option("--seed", min=0, help="Same seed, same bytes.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar, no table.")]
JsonFile = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Also write the figures as JSON.")]
ScenarioName = Annotated[
    str | None, typer.Option("--scenario", metavar="NAME|FILE", help="A scenario of `costgym scenarios`, or a YAML file.")
]
Data = Annotated[Path | None, typer.Option("--data", metavar="DIR", help="Folder that the scenario reads.")]
Split = Annotated[str, typer.Option("--split", help="train or test.")]
BudgetText = Annotated[
    str | None, typer.Option("--budgets", "--budget", metavar="LIMITS", help="price=10,20,40 or price=20;seconds=60")
]
Model = Annotated[
    str, typer.Option("--model", help="Behind agents that need one: simulated, openai:NAME, local:FOLDER[,adapter=DIR].")
]
Prices = Annotated[
    Path | None, typer.Option("--prices", metavar="FILE", help="What a real model's tokens cost: a dated table, in YAML.")
]
Cache = Annotated[
    Path | None, typer.Option("--cache", metavar="DIR", help="Keeps a real model's replies; they are charged all the same.")
]
StoreUrl = Annotated[
    str | None,
    typer.Option("--store", metavar="URL", help="Results in SQL: sqlite:///FILE, a file, or postgresql://HOST/DATABASE"),
]
Jobs = Annotated[
    int | None,
    typer.Option("--jobs", help="Processes; one by default. On a cluster: tasks at a time. Results do not depend on it."),
]
EngineName = Annotated[str, typer.Option("--engine", help="local, or ray: a Ray cluster. Results do not depend on it.")]
RayAddress = Annotated[
    str | None, typer.Option("--ray-address", metavar="HOST:PORT", help="A running cluster; without it one is started here.")
]
Grading = Annotated[
    str | None, typer.Option("--grading", help="What counts as a pass: strict (every fact), which is the default, or judge.")
]
Enforcement = Annotated[
    str | None, typer.Option("--enforcement", help="terminate, refuse or record what passes the budget; terminate by default.")
]
EnvName = Annotated[
    str | None, typer.Option("--env", metavar="ID", help="An environment of `costgym envs`; the agent's own by default.")
]
Tasks = Annotated[str | None, typer.Option("--tasks", help="OpenCATP: sequential, nonsequential or all, which is the default.")]
Alpha = Annotated[float | None, typer.Option("--alpha", help="OpenCATP: weight of the score against the price; 0.5.")]
PlanProfile = Annotated[
    str | None, typer.Option("--profile", metavar="NAME|FILE", help="OpenCATP: what tools cost, v100 by default.")
]
