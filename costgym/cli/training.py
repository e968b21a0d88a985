"""Training policies inside the world, and the papers' tables beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..simulators.errors import ConfigError, UnknownName
from .options import BudgetText, Quiet, ScenarioName, Seed
from .output import Progress

TRAINERS = ("ppo", "dqn", "catp", "ift", "rltf", "grpo", "toolplanner", "deer", "btp")


def train(
    what: Annotated[str, typer.Argument(help=", ".join(TRAINERS))],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the run; the same folder continues it.")],
    scenario: ScenarioName = None,
    steps: Annotated[int | None, typer.Option("--steps", help="Decisions (ppo, dqn) or optimiser steps (the others).")] = None,
    minutes: Annotated[float | None, typer.Option("--minutes", help="ppo, dqn: train so long instead.")] = None,
    budget: BudgetText = None,
    cost_limit: Annotated[
        float | None, typer.Option("--cost-limit", help="ppo: hold the mean price under it (Lagrangian).")
    ] = None,
    tasks: Annotated[str, typer.Option("--tasks", help="catp, ift, rltf: sequential, nonsequential or all.")] = "all",
    context: Annotated[bool, typer.Option(help="catp: context augmentation.")] = True,
    feedback: Annotated[bool, typer.Option(help="catp: intermediate feedback.")] = True,
    mask: Annotated[bool, typer.Option(help="catp: masked decoding.")] = True,
    model: Annotated[str | None, typer.Option("--model", help="A published model by id or folder; else a small one.")] = None,
    without: Annotated[
        str | None, typer.Option("--without", help="toolplanner: completion, following (feedback), tags, path: left out.")
    ] = None,
    start: Annotated[
        Path | None, typer.Option("--start", metavar="DIR", help="toolplanner: a stage 1 to start from (RUN/sft).")
    ] = None,
    sampling: Annotated[
        str, typer.Option("--sampling", help="deer: how candidates are drawn: random, inter, intra or mixture.")
    ] = "mixture",
    seed: Seed = 0,
    quiet: Quiet = False,
) -> None:
    """Train a policy; it plays as `sb3:DIR`, `catp:DIR`, `deer:DIR` or `toolplanner:DIR`. `DIR/curves.html`: how it learnt."""
    if what not in TRAINERS:
        raise UnknownName("trainer", what, TRAINERS)
    from ..simulators.ledger import Budget

    figures: dict[str, float] = {}
    limits = None
    if budget is not None:
        parsed = Budget.parse(budget)
        if len(parsed) > 1:
            raise ConfigError("--budget", f"expected one limit per resource, got {budget!r}")
        limits = parsed[0].as_dict()
    with _watch(what, quiet) as progress:
        if what in ("ppo", "dqn"):
            from ..experiments.training.sb3.train import train_dqn, train_ppo

            world = scenario or "marketplace"
            if what == "ppo":
                train_ppo(
                    out,
                    world,
                    seed,
                    steps=steps,
                    minutes=minutes,
                    budget=limits,
                    lagrangian=cost_limit,
                    progress=progress.update,
                )
            else:
                train_dqn(out, world, seed, steps=steps, minutes=minutes, budget=limits, progress=progress.update)
        elif what == "grpo":
            from ..experiments.training.grpo.train import train_grpo
            from ..experiments.training.grpo.world import GrpoWorld

            # a tiny model needs a tiny world; a published one takes the scenario as it is
            small = model is None and scenario is None
            world_of_it = GrpoWorld.tiny(seed=seed) if small else GrpoWorld(scenario or "marketplace", budget=limits)
            train_grpo(out, world_of_it, seed, steps=steps or 20, model=model, progress=progress.update)
        elif what == "toolplanner":
            from .training_toolplanner import train_it

            train_it(out, scenario, seed, steps, model, without, start, progress)
        elif what in ("deer", "btp"):
            from .training_language import train_btp_run, train_deer_run

            if what == "deer":
                figures = train_deer_run(out, scenario, seed, steps, model, sampling, progress)
            else:
                figures = train_btp_run(out, scenario, seed, steps, model, progress)
        else:
            from ..experiments.training.catp.train import train_catp, train_ift, train_rltf

            def watch(done: int, total: int, loss: float) -> None:
                progress.update(done, total)

            if what == "catp":
                parts: dict[str, Any] = {"context": context, "intermediate_feedback": feedback, "mask": mask}
                if model is not None:
                    parts["model"] = model
                train_catp(out, tasks, steps or 3000, seed, progress=watch, **parts)
            else:
                (train_ift if what == "ift" else train_rltf)(out, tasks, steps or 1500, seed, progress=watch)
    from ..experiments.reports.learning_curves import publish

    curves = publish(out)
    if not quiet:
        for name, figure in figures.items():
            typer.echo(f"{name:24} {figure:10.4f}")
        typer.echo(str(out) if curves is None else f"{out}\nlearning curves: {curves}")


def _watch(what: str, quiet: bool) -> Progress:
    return Progress(f"training {what}", quiet)
