"""`costgym train deer`."""

from __future__ import annotations

from typing import Any

from ....agents.deer.settings import DeerSettings
from ...options import Data, Quiet, ScenarioName, Seed
from .shared import Out, Resume, run_trainer, with_settings


@with_settings(DeerSettings)
def deer(
    out: Out,
    settings: dict[str, Any],
    scenario: ScenarioName = None,
    data: Data = None,
    resume: Resume = True,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Train DEER's policy, which decides whether to search for a tool and which to call; the agent is `deer:DIR`.

    Prints the six accuracies on seen and on unseen tools.

    Example: `costgym train deer --sampling mixture --out runs/deer`
    """
    from ....experiments.train.deer.train import train_deer

    folder = None if data is None else str(data)
    run_trainer("deer", quiet, train_deer, out, scenario or "decision", seed, data=folder, resume=resume, **settings)
