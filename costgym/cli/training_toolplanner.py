"""`costgym train toolplanner`: what of the command line concerns it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..simulators.errors import UnknownName
from .output import Progress

PARTS = {"completion": "completion", "following": "following", "tags": "tags", "path": "path"}
"""What can be left out."""


def train_it(
    out: Path,
    scenario: str | None,
    seed: int,
    steps: int | None,
    model: str | None,
    without: str | None,
    start: Path | None,
    progress: Progress,
) -> None:
    """Train both stages.

    Args:
        steps: of stage 1; stage 2's steps, and the tasks that either learns from, grow and shrink with them.
        without: parts that are left out, with commas between.
        start: folder of a stage 1 to start from.
    """
    from ..agents.toolplanner.settings import LearntSettings
    from ..experiments.training.toolplanner.train import Watching, train_toolplanner

    settings: dict[str, Any] = {}
    for part in [name.strip() for name in (without or "").split(",") if name.strip()]:
        if part not in PARTS:
            raise UnknownName("part to leave out", part, list(PARTS))
        settings[PARTS[part]] = False
    if steps is not None:
        usual = LearntSettings()
        for name, least in (("tasks", 100), ("rank_tasks", 50), ("rank_steps", 1)):
            settings[name] = max(least, getattr(usual, name) * steps // usual.steps)
        settings["steps"] = steps
    if model is not None:
        settings["model"] = model
    watching = Watching(progress=progress.update)
    train_toolplanner(out, scenario or "marketplace", seed, sft=start, watching=watching, **settings)
