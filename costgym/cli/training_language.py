"""`costgym train deer` and `costgym train btp`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..simulators.errors import ConfigError
from .output import Progress


def train_deer_run(
    out: Path, scenario: str | None, seed: int, steps: int | None, model: str | None, sampling: str, progress: Progress
) -> dict[str, float]:
    """Trains a DEER policy; returns its six accuracies on seen and unseen tools."""
    from ..experiments.training.deer.train import train_deer

    chosen: dict[str, Any] = {} if steps is None else {"steps": steps}
    result = train_deer(out, scenario or "decision", seed, sampling=sampling, model=model, progress=progress.update, **chosen)
    return result.metrics


def train_btp_run(
    out: Path, scenario: str | None, seed: int, steps: int | None, model: str | None, progress: Progress
) -> dict[str, float]:
    """Trains BTP's usefulness classifier; returns its figures on held-out tasks."""
    from ..experiments.training.usefulness.train import train_btp
    from ..simulators.scenario import load_scenario

    if steps is not None:
        raise ConfigError("--steps", "train btp fits to the end; it takes none")
    return train_btp(out, load_scenario(scenario or "marketplace"), seed, model=model, progress=progress.update).metrics
