"""`costgym train sft`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ....experiments.train.sft.settings import SftSettings
from ....simulators.ledger import Budget
from ...options import BudgetText, Quiet, ScenarioName, Seed
from .shared import Out, Resume, run_trainer, with_settings


@with_settings(SftSettings)
def sft(
    out: Out,
    settings: dict[str, Any],
    scenario: ScenarioName = None,
    split: Annotated[str, typer.Option("--split", help="Tasks to learn from: train, or train-large.")] = "train",
    budget: BudgetText = None,
    minutes: Annotated[
        float | None, typer.Option("--minutes", help="Stop after so many minutes; the same command goes on.")
    ] = None,
    resume: Resume = True,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Fine-tune a language model on solved episodes of the text view; the result is `DIR/model`.

    Example: `costgym train sft --model models/smollm2 --split train-large --budget price=20 --out runs/sft`
    """
    from ....experiments.train.sft.train import train_sft
    from ....simulators.errors import ConfigError

    if "model" not in settings:
        raise ConfigError("--model", "expected a model folder; `costgym models fetch smollm2 --out DIR` makes one")
    limits = None if budget is None else Budget.one(budget).as_dict()
    given = {"split": split, "budget": limits, "minutes": minutes, "resume": resume}
    run_trainer("sft", quiet, train_sft, out, scenario or "marketplace", seed, **given, **settings)
