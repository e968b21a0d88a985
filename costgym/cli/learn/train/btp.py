"""`costgym train btp`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ....experiments.train.usefulness.settings import UsefulnessSettings
from ....experiments.train.usefulness.train import train_btp
from ...options import Quiet, ScenarioName, Seed
from .shared import Out, Resume, run_trainer, with_settings


@with_settings(UsefulnessSettings)
def btp(
    out: Out,
    settings: dict[str, Any],
    scenario: ScenarioName = None,
    records: Annotated[
        Path | None,
        typer.Option("--records", metavar="DIR", help="Train on these trajectories of `costgym collect` instead."),
    ] = None,
    resume: Resume = True,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Train BTP's classifier, which predicts whether the result of a call helps; agents use it with `--usefulness DIR`.

    Prints the metrics of the classifier and of the rules on held-out tasks.

    Example: `costgym train btp --episodes 1500 --out runs/btp`
    """
    from ....simulators.scenario import load_scenario

    world = load_scenario(scenario or "marketplace")
    run_trainer("btp", quiet, train_btp, out, world, seed, records=records, resume=resume, **settings)
