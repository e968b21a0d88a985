"""`costgym train catp`, `ift` and `rltf`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ....agents.catp.settings import CatpSettings
from ...options import Quiet, Seed
from .shared import Out, Resume, run_trainer, with_settings

OWN = ("method", "steps")
FEEDBACK = {"intermediate_feedback": "--feedback/--no-feedback"}
PAPER = ("cumulative", "gamma", "centred")
BASELINE = (*OWN, "context", "intermediate_feedback", *PAPER, "return_scale", "walks", "best", "near", "spread")
Steps = Annotated[int, typer.Option("--steps", help="Optimiser steps.")]
Preset = Annotated[
    str | None,
    typer.Option("--preset", help="paper: the published charges, discount and target. Options that are given count more."),
]
Pool = Annotated[
    list[Path] | None,
    typer.Option("--pool", metavar="FILE", help="Plan pool to learn from (.json, or the official .pkl); repeatable."),
]


@with_settings(CatpSettings, (*OWN, "supervised_steps", "group"), FEEDBACK)
def catp(
    out: Out,
    settings: dict[str, Any],
    steps: Steps = 3000,
    pool: Pool = None,
    preset: Preset = None,
    resume: Resume = True,
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Train CATP-LLM offline on executed plans of the OpenCATP tools, conditioned on their returns; the agent is `catp:DIR`.

    With `--pool` it trains on recorded plans instead of plans that it searches for and executes. A quarter of the recorded
    tasks and samples is held out, and the metrics are measured on them.

    Example: `costgym train catp --tasks sequential --steps 1500 --out runs/catp`
    """
    from ....experiments.train.catp.train import train_catp

    usual = CatpSettings.preset(preset) if preset else {}
    settings = {**usual, **settings}
    run_trainer("catp", quiet, train_catp, out, steps=steps, seed=seed, pool=pool or (), resume=resume, **settings)


@with_settings(CatpSettings, (*BASELINE, "supervised_steps", "group"))
def ift(
    out: Out, settings: dict[str, Any], steps: Steps = 1500, resume: Resume = True, seed: Seed = 0, quiet: Quiet = False
) -> None:
    """Train the baseline of instruction fine-tuning: supervised on the best plan for each task; the agent is `ift:DIR`.

    Example: `costgym train ift --steps 1500 --out runs/ift`
    """
    from ....experiments.train.catp.train import train_ift

    run_trainer("ift", quiet, train_ift, out, steps=steps, seed=seed, resume=resume, **settings)


@with_settings(CatpSettings, BASELINE)
def rltf(
    out: Out, settings: dict[str, Any], steps: Steps = 1500, resume: Resume = True, seed: Seed = 0, quiet: Quiet = False
) -> None:
    """Train the baseline of reinforcement learning from task feedback (policy gradient); the agent is `rltf:DIR`.

    Example: `costgym train rltf --steps 1500 --out runs/rltf`
    """
    from ....experiments.train.catp.train import train_rltf

    run_trainer("rltf", quiet, train_rltf, out, steps=steps, seed=seed, resume=resume, **settings)
