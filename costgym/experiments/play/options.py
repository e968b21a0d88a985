"""Options that runs, commands and trainers share."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

from costgym.simulators.bounds import Count, option
from costgym.simulators.ledger import Budget


def _full_name(name: str) -> str:
    """The name of a model as runs record it, with the settings of a model file written out."""
    if name.rpartition(":")[0].endswith((".yaml", ".yml")):
        from costgym.agents.models.named import full_name

        return full_name(name)
    return name


def _limits(budget: Any) -> Any:
    return Budget.one(budget).as_dict() if isinstance(budget, str) else budget


Seed = Annotated[int, option("Seed; equal seeds give equal bytes.", ge=0, lt=2**62)]
SCENARIO = option("A scenario of `costgym scenarios`, or a YAML file.", "NAME|FILE")
ScenarioName = Annotated[str | None, SCENARIO]
Data = Annotated[str | None, option("Folder with the scenario's data.", "DIR")]
Split = Annotated[str, option("train or test.")]
BUDGET = option("Budget: price=20, or price=20;seconds=60; the world's own by default", "LIMITS", "--budget", "--budgets")
Limits = Annotated[Mapping[str, float] | None, BeforeValidator(_limits), BUDGET]
Model = Annotated[
    str,
    AfterValidator(_full_name),
    option("Language model of agents: simulated, openai:NAME, local:FOLDER[,adapter=DIR], or FILE.yaml:NAME of a model file."),
]
JudgeModel = Annotated[
    str | None,
    AfterValidator(lambda name: None if name is None else _full_name(name)),
    option("Model that judges chat agents' answers beside the grading: openai:NAME, local:FOLDER or FILE.yaml:NAME.", "MODEL"),
]
JudgePrices = Annotated[Path | None, option("Prices of the judge's tokens: a dated YAML table.", "FILE")]
PRICES = option("Prices of a real model's tokens: a dated YAML table.", "FILE")
Prices = Annotated[Path | None, PRICES]
EXPERIENCE = option("What BTP plans from: dfsdt:5 for 5 past uses of each tool, found by DFSDT.", "EXPLORER:USES")
Cache = Annotated[Path | None, option("Cache of a real model's replies; cached replies are charged too.", "DIR")]
SpendLimit = Annotated[
    float | None, option("Stop before a real model's tokens cost more than this; earlier runs count.", "USD")
]
Batch = Annotated[Count, option("Episodes that a greedy local model replies to together, in this process.")]
Concurrency = Annotated[
    Count, option("Concurrent requests to a model server; the whole run is played in this process, whatever --jobs says.")
]
Jobs = Annotated[int | None, option("Processes, 1 by default; on a cluster, tasks in flight. Results do not depend on it.")]
Enforcement = Annotated[str | None, option("What a limit does: refuse, terminate or record; each environment has a default.")]
Documents = Annotated[str | None, option("Text view: full documents of the tools (the default), or short ones.")]
