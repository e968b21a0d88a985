"""Training CATP-LLM, and the baselines IFT and RLTF with the same policy and planning language."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ....agents.catp.sequences import MAX_STEPS
from ....agents.catp.settings import CatpConfig, CatpSettings
from ....simulators.opencatp.scoring.evaluation import Evaluator
from ..run import Callback, TrainingResult, open_run, require_modules
from .dataset import collect, labels, records_of, train_tasks


def train_catp(
    out: str | Path,
    tasks: str = "all",
    steps: int = 2000,
    seed: int = 0,
    *,
    pool: Sequence[str | Path] = (),
    resume: bool = True,
    evaluator: Evaluator | None = None,
    device: str = "auto",
    callback: Callback | None = None,
    save_every: int = 250,
    check_every: int = 0,
    **settings: Any,
) -> TrainingResult:
    """Train CATP-LLM: offline, from executed plans, told their returns.

    Args:
        out: folder of the run; ``catp:OUT`` is the agent.
        tasks: ``sequential``, ``nonsequential`` or ``all``.
        steps: optimiser steps.
        seed: of everything drawn.
        pool: files of recorded plans to learn from, see `load_pool`; by default plans are searched for and executed. A
            quarter of the recorded tasks and samples is held out, and the metrics say how well the policy meets them.
        resume: go on with the run that is there; else begin anew.
        evaluator: scores and prices; None: the shipped outcome table and the profile of the settings.
        device: ``cpu``, ``cuda`` or ``auto``.
        callback: follows the run.
        save_every: steps between checkpoints.
        check_every: steps between figures on the train tasks; 0: only at the end.
        settings: other fields of `CatpSettings`.

    Raises:
        MissingExtra: torch, transformers or safetensors is not installed.
        ConfigError, UnknownName: a setting makes no sense, or the folder holds another run.
        TrainingFailed: the loss became infinite or no number; the last good checkpoint stays.
        DataError: a checkpoint or a pool cannot be read, or a pool has nothing to learn from.
    """
    usual = {} if evaluator is None else {"alpha": evaluator.alpha, "profile": evaluator.profile.name}
    given = {"method": "catp", "tasks": tasks, "steps": steps, "seed": seed}
    chosen = CatpSettings(**{**usual, **given, **settings})
    require_modules("torch", "transformers", "safetensors")
    from ....agents.catp.planner import ready_policy, tell_prices
    from ..loop import optimise
    from .learning import learner
    from .pools import PoolLearner, pool_data, pool_names

    config = CatpConfig(trainer=chosen.method, settings=chosen, data=pool_names(pool))  # type: ignore[arg-type]
    with open_run(out, config, resume=resume, callback=callback) as run:
        if (done := run.done()) is not None:
            return done
        world = evaluator or Evaluator(None, chosen.profile, chosen.alpha)
        recorded = pool_data(pool, seed, world.profile, chosen.tasks) if pool else None
        if recorded is not None:
            plans: Sequence[Any] = recorded.train
            run.say(f"{len(recorded.held_out)} recorded plans are held out, {recorded.left_out} are left out")
        else:
            known = train_tasks(chosen)
            run.say(f"collecting plans for {len(known)} tasks")
            plans = collect(known, world, chosen) if chosen.method == "catp" else labels(known, world)
        records, target_return = records_of(plans, chosen)
        run.say(f"{len(records)} plans of {len({record.task.task_id for record in records})} tasks to learn from")
        run.update(target_return=target_return)
        policy = ready_policy(chosen, device)
        tell_prices(policy, world)
        if recorded is not None:
            taught: Any = PoolLearner(policy, records, world, chosen, target_return, recorded.held_out)
        else:
            taught = learner(policy, records, world, chosen, target_return)
        return optimise(run, taught, save_every, check_every)


def train_ift(out: str | Path, tasks: str = "all", steps: int = 1000, seed: int = 0, **options: Any) -> TrainingResult:
    """Train instruction fine-tuning: supervised on one labelled plan per task, the one that solves it best.

    Labels say how a task is solved, not at what price, and the policy is told neither returns nor costs. Options as for
    `train_catp`, without pools.

    Source: CATP-LLM, section 5 (the baseline IFT, on the same planning language).
    """
    return train_catp(out, tasks, steps, seed, **{"context": False, "window": MAX_STEPS, **options, "method": "ift"})


def train_rltf(out: str | Path, tasks: str = "all", steps: int = 1000, seed: int = 0, **options: Any) -> TrainingResult:
    """Train reinforcement learning from task feedback: a policy gradient on the quality of finished plans.

    It begins with `supervised_steps` of supervised learning as IFT. Then several plans are drawn for each situation and
    executed on one train sample; each is pushed up or down by how far its Quality of Plan lies from their mean. Options as for
    `train_catp`, without pools.

    Source: CATP-LLM, section 5 (the baseline RLTF); Ge et al. 2023 (OpenAGI).
    """
    return train_catp(out, tasks, steps, seed, **{"context": False, "window": MAX_STEPS, **options, "method": "rltf"})
