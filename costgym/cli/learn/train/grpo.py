"""`costgym train grpo`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ....experiments.train.grpo.settings import GrpoSettings
from ....simulators.ledger import Budget
from ...options import BudgetText, Documents, Quiet, ScenarioName, Seed
from .shared import Out, Resume, run_trainer, with_settings


@with_settings(GrpoSettings)
def grpo(
    out: Out,
    settings: dict[str, Any],
    scenario: ScenarioName = None,
    steps: Annotated[int, typer.Option("--steps", help="Number of GRPO steps.")] = 20,
    budget: BudgetText = None,
    documents: Documents = None,
    resume: Resume = True,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Train a tool-calling language model in the marketplace by GRPO (TRL); the result is `DIR/model`.

    Without `--model`, a tiny model is created and first trained to call tools; its default scenario is a tiny one.

    Example: `costgym train grpo --steps 20 --out runs/grpo`
    """
    from ....experiments.train.grpo.train import train_grpo
    from ....experiments.train.grpo.world import GrpoWorld

    # a tiny model needs a tiny scenario
    tiny = "model" not in settings and scenario is None and documents is None
    limits = None if budget is None else Budget.one(budget).as_dict()
    world = (
        GrpoWorld.tiny(seed=seed)
        if tiny
        else GrpoWorld(scenario or "marketplace", budget=limits, documents=documents or "short")
    )
    run_trainer("grpo", quiet, train_grpo, out, world, seed, steps=steps, resume=resume, **settings)
