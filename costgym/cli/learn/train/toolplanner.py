"""`costgym train toolplanner`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ....agents.toolplanner.settings import LearntSettings
from ....simulators.errors import UnknownName
from ...options import Quiet, ScenarioName, Seed
from ...output import names_in
from .shared import Out, Resume, run_trainer, with_settings

PARTS = ("completion", "following", "tags", "path")
"""Parts that `--without` can leave out."""


@with_settings(LearntSettings, ("steps",))
def toolplanner(
    out: Out,
    settings: dict[str, Any],
    scenario: ScenarioName = None,
    steps: Annotated[
        int | None,
        typer.Option("--steps", help="Steps of stage 1; the steps of stage 2 and the tasks of both stages scale with it."),
    ] = None,
    without: Annotated[
        str | None,
        typer.Option("--without", help="Parts to leave out, separated by commas: completion, following, tags, path."),
    ] = None,
    start: Annotated[
        Path | None,
        typer.Option("--start", metavar="DIR", help="Folder of an existing stage 1 with the same settings, such as RUN/sft."),
    ] = None,
    resume: Resume = True,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Train ToolPlanner on solved paths, then by ranking rounds of its own search trees; the agent is `toolplanner:DIR`.

    Example: `costgym train toolplanner --steps 500 --out runs/toolplanner`
    """
    from ....experiments.train.toolplanner.train import train_toolplanner

    chosen = {**scaled(steps), **left_out(without), **settings}
    run_trainer(
        "toolplanner", quiet, train_toolplanner, out, scenario or "marketplace", seed, sft=start, resume=resume, **chosen
    )


def scaled(steps: int | None) -> dict[str, int]:
    """Return the settings of a run with the given steps in stage 1, and the others scaled in proportion."""
    if steps is None:
        return {}
    usual = LearntSettings()
    least = {"tasks": 100, "rank_tasks": 50, "rank_steps": 1}
    return {"steps": steps, **{name: max(low, getattr(usual, name) * steps // usual.steps) for name, low in least.items()}}


def left_out(without: str | None) -> dict[str, bool]:
    """Return the settings that leave parts out.

    Raises:
        UnknownName: a part is unknown.
    """
    parts = names_in(without) or []
    for part in parts:
        if part not in PARTS:
            raise UnknownName("part to leave out", part, PARTS)
    return dict.fromkeys(parts, False)
