"""Train CATP-LLM, and the baselines IFT and RLTF with the same policy and planning language."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from costgym.agents.catp.sequences import MAX_STEPS
from costgym.agents.catp.settings import CatpConfig, CatpSettings
from costgym.experiments.train.catp.dataset import collect, labels, records_of, train_tasks
from costgym.experiments.train.run import Callback, TrainingResult, named_files, open_run, require_modules
from costgym.simulators.opencatp.pools import MAX_POOL_BYTES
from costgym.simulators.opencatp.scoring.evaluation import Evaluator, shipped_outcomes


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
    """Train CATP-LLM offline from executed plans, on whose returns the policy is conditioned; ``catp:OUT`` is the agent.

    `tasks` are ``sequential``, ``nonsequential`` or ``all``. `pool` are files of recorded plans to train on (see `load_pool`),
    of whose (task, sample) pairs a quarter is held out for the metrics; by default plans are searched for and executed.
    `evaluator` has scores and prices; None for the outcome table and the profile of the settings. `device` is ``cpu``,
    ``cuda`` or ``auto``; `save_every` and `check_every` are in steps, and 0 evaluates on the train tasks only at the end;
    `settings` are further fields of `CatpSettings`. With `resume` False the run starts again.

    Raises ConfigError or UnknownName if a setting is invalid or the folder holds another run, TrainingFailed if the loss is not
    finite (the last good checkpoint is kept), and DataError for a checkpoint or pool that cannot be read or pools without
    usable plans.
    """
    usual = {} if evaluator is None else {"alpha": evaluator.alpha, "profile": evaluator.profile.name}
    arguments = {"method": "catp", "tasks": tasks, "steps": steps, "seed": seed}
    chosen = CatpSettings(**{**usual, **arguments, **settings})
    require_modules("torch", "transformers", "safetensors")
    from costgym.agents.catp.planner import ready_policy, tell_prices
    from costgym.experiments.train.catp.learning import FeedbackLearner, OfflineLearner
    from costgym.experiments.train.catp.pools import PoolLearner, pool_data
    from costgym.experiments.train.loop import optimise

    config = CatpConfig(trainer=chosen.method, settings=chosen, data=named_files(pool, MAX_POOL_BYTES))  # type: ignore[arg-type]
    with open_run(out, config, resume=resume, callback=callback) as run:
        if (done := run.done()) is not None:
            return done
        world = evaluator or Evaluator(shipped_outcomes(chosen.outcomes), chosen.profile, chosen.alpha)
        recorded = pool_data(pool, seed, world.profile, chosen.tasks) if pool else None
        if recorded is not None:
            plans: Sequence[Any] = recorded.train
            run.say(f"{len(recorded.held_out)} recorded plans are held out, {recorded.left_out} are not usable")
        else:
            known = train_tasks(chosen)
            run.say(f"collecting plans for {len(known)} tasks")
            plans = collect(known, world, chosen) if chosen.method == "catp" else labels(known, world)
        records, target_return = records_of(plans, chosen)
        run.say(f"{len(records)} plans of {len({record.task.task_id for record in records})} tasks for training")
        run.update(target_return=target_return)
        policy = ready_policy(chosen, device)
        tell_prices(policy, world)
        offline = policy, records, world, chosen, target_return
        kind = FeedbackLearner if chosen.method == "rltf" else OfflineLearner
        taught = kind(*offline) if recorded is None else PoolLearner(*offline, held_out=recorded.held_out)
        return optimise(run, taught, save_every, check_every)


def train_ift(out: str | Path, tasks: str = "all", steps: int = 1000, seed: int = 0, **options: Any) -> TrainingResult:
    """Train the instruction fine-tuning baseline: supervised learning on the plan with the highest score for each task.

    The labels do not depend on prices, and the policy's input contains no returns; the prompt is CATP's without context
    augmentation. Options are those of `train_catp` except `pool`.

    Source: CATP-LLM, section 5 (the baseline IFT, on the same planning language).
    """
    return train_catp(out, tasks, steps, seed, **{"context": False, "window": MAX_STEPS, **options, "method": "ift"})


def train_rltf(out: str | Path, tasks: str = "all", steps: int = 1000, seed: int = 0, **options: Any) -> TrainingResult:
    """Train the baseline of reinforcement learning from task feedback: policy gradient on the quality of complete plans.

    The first `supervised_steps` steps are supervised as in `train_ift`. In each later step, groups of plans are sampled and
    executed, each group for one task and one train sample; the advantage of a plan is its Quality of Plan minus the group mean,
    divided by the batch's standard deviation. Options are those of `train_catp` except `pool`.

    Source: CATP-LLM, section 5 (the baseline RLTF); Ge et al. 2023 (OpenAGI).
    """
    return train_catp(out, tasks, steps, seed, **{"context": False, "window": MAX_STEPS, **options, "method": "rltf"})
