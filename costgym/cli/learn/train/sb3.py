"""`costgym train ppo` and `costgym train dqn`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ....experiments.train.sb3.settings import DqnSettings, PpoSettings
from ....simulators.ledger import Budget
from ...options import BudgetText, Quiet, ScenarioName, Seed
from .shared import Out, Resume, run_trainer, with_settings

Steps = Annotated[
    int | None, typer.Option("--steps", help="Number of decisions; the policy then does not depend on the machine's speed.")
]
Minutes = Annotated[
    float | None,
    typer.Option("--minutes", help="Training time in minutes after compilation, instead of --steps; 5 if neither is given."),
]
Split = Annotated[str, typer.Option("--split", help="Tasks to learn from: train, or train-large.")]


@with_settings(PpoSettings)
def ppo(
    out: Out,
    settings: dict[str, Any],
    scenario: ScenarioName = None,
    steps: Steps = None,
    minutes: Minutes = None,
    split: Split = "train",
    budget: BudgetText = None,
    cost_limit: Annotated[
        str | None,
        typer.Option(
            "--cost-limit", help="Limits of mean costs, kept by Lagrange multipliers: `7` (price) or `price=7;calls=3`."
        ),
    ] = None,
    resume: Resume = True,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Train MaskablePPO (Stable-Baselines3) in the marketplace; the agent is `sb3:DIR`.

    Example: `costgym train ppo --minutes 5 --budget price=20 --out runs/ppo`
    """
    from ....experiments.train.sb3.train import train_ppo

    limits = None if budget is None else Budget.one(budget).as_dict()
    held = (
        None
        if cost_limit is None
        else Budget.one(cost_limit if "=" in cost_limit else f"price={cost_limit}", "--cost-limit").as_dict()
    )
    run_trainer(
        "ppo",
        quiet,
        train_ppo,
        out,
        scenario or "marketplace",
        seed,
        steps=steps,
        minutes=minutes,
        split=split,
        budget=limits,
        lagrangian=held,
        resume=resume,
        **settings,
    )


@with_settings(DqnSettings)
def dqn(
    out: Out,
    settings: dict[str, Any],
    scenario: ScenarioName = None,
    steps: Steps = None,
    minutes: Minutes = None,
    split: Split = "train",
    budget: BudgetText = None,
    resume: Resume = True,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Train DQN (Stable-Baselines3) with action masks in the marketplace; the agent is `sb3:DIR`.

    Example: `costgym train dqn --steps 100000 --out runs/dqn`
    """
    from ....experiments.train.sb3.train import train_dqn

    limits = None if budget is None else Budget.one(budget).as_dict()
    run_trainer(
        "dqn",
        quiet,
        train_dqn,
        out,
        scenario or "marketplace",
        seed,
        steps=steps,
        minutes=minutes,
        split=split,
        budget=limits,
        resume=resume,
        **settings,
    )
