"""Training runs: `train_catp`, and the baselines `train_ift` and `train_rltf` with the same policy and planning language.

A run is a folder: `config.json` (what it is), `checkpoints/`, `curve.jsonl` (the loss of every step, and now and then the
Quality of Plan on the train tasks) and, at the end, `metrics.json`. Every draw is a function of the seed and of the step's
number, so a run that was stopped and resumed ends in the same bytes as one that was not.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from ....agents.catp.sequences import MAX_STEPS
from ....agents.catp.settings import CONFIG, CatpSettings, read_config, write_config
from ....simulators.errors import ConfigError, DataError, TrainingFailed, require
from ....simulators.opencatp.scoring.evaluation import Evaluator
from .dataset import ExecutedPlan, collect, labels, records_of, train_tasks

CURVE, METRICS = "curve.jsonl", "metrics.json"

Progress = Callable[[int, int, float], None]
"""Called after each step with the steps taken, the steps in all and the loss."""


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """A finished (or stopped) run.

    Attributes:
        run: its folder.
        steps: steps taken in all.
        loss: mean loss of the last steps.
        metrics: figures on the train tasks at the end.
    """

    run: Path
    steps: int
    loss: float
    metrics: dict[str, float]


@dataclass(frozen=True, slots=True)
class Watching:
    """How a run is watched and stopped; nothing of it changes what is learnt.

    Attributes:
        progress: see `Progress`.
        log: given lines of text.
        stop: asked after each step; the run then saves and ends, and can be resumed.
        save_every: steps between checkpoints.
        check_every: steps between figures on the train tasks; 0: only at the end; None: never.
        tensorboard: also write TensorBoard event files into the run's folder.
    """

    progress: Progress | None = None
    log: Callable[[str], None] | None = None
    stop: Callable[[int], bool] | None = None
    save_every: int = 250
    check_every: int | None = 0
    tensorboard: bool = False


def train_catp(
    out: str | Path,
    tasks: str = "all",
    steps: int = 2000,
    seed: int = 0,
    *,
    resume: bool = True,
    context: bool = True,
    intermediate_feedback: bool = True,
    mask: bool = True,
    evaluator: Evaluator | None = None,
    plans: Sequence[ExecutedPlan] | None = None,
    device: str = "auto",
    watching: Watching | None = None,
    progress: Progress | None = None,
    log: Callable[[str], None] | None = None,
    **settings: Any,
) -> TrainingResult:
    """Trains CATP-LLM: offline, from executed plans, told their returns.

    Args:
        out: folder of the run.
        tasks: ``sequential``, ``nonsequential`` or ``all``.
        steps: optimiser steps.
        seed: of everything drawn.
        resume: go on from the last checkpoint where there is one of the same settings; else begin anew.
        context, intermediate_feedback, mask: parts that can be left out, see `CatpSettings`.
        evaluator: scores and prices; None: the shipped outcome table and the profile of the settings.
        plans: executed plans to learn from (of the official pools, say); None: they are searched for.
        device: ``cpu``, ``cuda`` or ``auto``.
        watching: how the run is watched and stopped; `progress` and `log` stand beside it for short.
        settings: other fields of `CatpSettings`.

    Raises:
        MissingExtra: torch or transformers is not installed.
        ConfigError: a setting makes no sense, or the folder holds a run of other settings.
        TrainingFailed: the loss became infinite or no number; the last good checkpoint stays.
        DataError: a checkpoint to go on from is damaged.
    """
    chosen = _settings(
        "catp", tasks, steps, seed, evaluator, settings,
        {"context": context, "intermediate_feedback": intermediate_feedback, "mask": mask},
    )  # fmt: skip
    return _run(Path(out), chosen, evaluator, plans, resume, device, _watching(watching, progress, log))


def train_ift(out: str | Path, tasks: str = "all", steps: int = 1000, seed: int = 0, **options: Any) -> TrainingResult:
    """Trains instruction fine-tuning: supervised on one labelled plan per task, the one that solves it best.

    Labels say how a task is solved, not at what price, and the policy is told neither returns nor costs. Options as for
    :func:`train_catp`.

    Source: CATP-LLM, section 5 (the baseline IFT, on the same planning language).
    """
    return _baseline("ift", Path(out), tasks, steps, seed, options)


def train_rltf(out: str | Path, tasks: str = "all", steps: int = 1000, seed: int = 0, **options: Any) -> TrainingResult:
    """Trains reinforcement learning from task feedback: a policy gradient on the quality of finished plans.

    It begins with `warm_steps` of supervised learning as IFT. Then several plans are drawn for each situation and executed on
    one train sample; each is pushed up or down by how far its Quality of Plan lies from their mean. Options as for
    :func:`train_catp`.

    Source: CATP-LLM, section 5 (the baseline RLTF); Ge et al. 2023 (OpenAGI).
    """
    return _baseline("rltf", Path(out), tasks, steps, seed, options)


def _baseline(method: str, out: Path, tasks: str, steps: int, seed: int, options: dict[str, Any]) -> TrainingResult:
    known = {
        name: options.pop(name) for name in ("evaluator", "resume", "device", "watching", "progress", "log") if name in options
    }
    evaluator = known.get("evaluator")
    settings = _settings(method, tasks, steps, seed, evaluator, options, {"context": False, "window": MAX_STEPS})
    watching = _watching(known.get("watching"), known.get("progress"), known.get("log"))
    return _run(out, settings, evaluator, None, known.get("resume", True), known.get("device", "auto"), watching)


def _settings(
    method: str, tasks: str, steps: int, seed: int, evaluator: Evaluator | None, given: dict[str, Any], usual: dict[str, Any]
) -> CatpSettings:
    known = {field.name for field in fields(CatpSettings)}
    for name in given:
        if name not in known:
            raise ConfigError(name, f"no such setting; known: {', '.join(sorted(known))}")
    if evaluator is not None:
        usual = {**usual, "alpha": evaluator.alpha, "profile": evaluator.profile.name}
    return CatpSettings(**{**usual, "method": method, "tasks": tasks, "steps": steps, "seed": seed, **given})


def _watching(watching: Watching | None, progress: Progress | None, log: Callable[[str], None] | None) -> Watching:
    given = watching or Watching()
    return Watching(
        given.progress or progress, given.log or log, given.stop, given.save_every, given.check_every, given.tensorboard
    )


def _run(
    out: Path,
    settings: CatpSettings,
    evaluator: Evaluator | None,
    plans: Sequence[ExecutedPlan] | None,
    resume: bool,
    device: str,
    watching: Watching,
) -> TrainingResult:
    torch = require("torch", "train")
    require("transformers", "train")
    require("safetensors", "train")
    from ....agents.catp.planner import ready_policy, tell_prices
    from ....agents.catp.policy import trained_weights
    from ....agents.checkpoints import FOLDER, checkpoints, load_optimizer, load_weights, save
    from .learning import learner

    say = watching.log or (lambda line: None)
    world = evaluator or Evaluator(None, settings.profile, settings.alpha)
    go_on = _prepare(out, settings, resume, FOLDER)
    records, target_return = records_of(_plans(settings, world, plans), settings)
    say(f"{settings.method}: {len(records)} plans of {len({r.task.task_id for r in records})} tasks to learn from")
    write_config(out, settings, target_return)

    policy = ready_policy(settings, device)
    tell_prices(policy, world)
    weights = trained_weights(policy)
    say(f"{settings.model}: {sum(w.numel() for w in weights.values()):,} weights to train")
    optimizer = torch.optim.AdamW(weights.values(), lr=settings.rate(0), weight_decay=settings.weight_decay)
    start = 0
    kept = checkpoints(out)[-1] if go_on and checkpoints(out) else None
    if kept is not None:
        load_weights(kept, weights)
        start = load_optimizer(kept, weights, optimizer)["step"]
        say(f"going on from step {start}")
    _cut_curve(out / CURVE, start)
    learn = learner(policy, records, world, settings, target_return)
    board = _board(out) if watching.tensorboard else None

    recent: list[float] = []
    metrics: dict[str, float] = {}
    step = start
    with (out / CURVE).open("a", encoding="utf-8") as curve:
        while step < settings.steps:
            for group in optimizer.param_groups:
                group["lr"] = settings.rate(step)
            loss, figures = learn.loss(step)
            value = float(loss.detach())
            if not torch.isfinite(loss):
                raise TrainingFailed(step, f"the loss is {value}", kept)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(list(weights.values()), settings.clip)
            optimizer.step()
            step += 1
            recent = [*recent[-49:], value]
            line = {"step": step, "loss": value, **figures}
            stopped = watching.stop is not None and watching.stop(step)
            last = step == settings.steps or stopped
            if watching.check_every is not None and (last or (watching.check_every and step % watching.check_every == 0)):
                metrics = learn.check()
                line |= metrics
                say(f"step {step}: " + ", ".join(f"{name} {number:.4f}" for name, number in line.items() if name != "step"))
            curve.write(json.dumps(line) + "\n")
            if board is not None:
                for name, number in line.items():
                    board.add_scalar(name, number, step)
            if watching.progress is not None:
                watching.progress(step, settings.steps, value)
            if last or step % watching.save_every == 0:
                if not all(bool(torch.isfinite(weight).all()) for weight in weights.values()):
                    raise TrainingFailed(step, "a weight is no longer a finite number", kept)
                curve.flush()
                kept = save(out, step, weights, optimizer, {"loss": value})
            if stopped:
                break
    if board is not None:
        board.close()
    if not metrics and watching.check_every is not None:
        metrics = learn.check()
    mean = sum(recent) / len(recent) if recent else float("nan")
    report = {"steps": step, "loss": mean if recent else None, **metrics, "settings": asdict(settings)}
    (out / METRICS).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return TrainingResult(out, step, mean, metrics)


def _prepare(out: Path, settings: CatpSettings, resume: bool, folder: str) -> bool:
    """Makes the run's folder; whether there may be checkpoints in it to go on from.

    A folder with anything but a run in it is not touched.
    """
    if out.exists() and not out.is_dir():
        raise ConfigError("out", f"{out} is a file; name a folder")
    if out.is_dir() and any(out.iterdir()) and not (out / CONFIG).is_file():
        raise ConfigError("out", f"{out} holds something else than a training run; name another folder")
    out.mkdir(parents=True, exist_ok=True)
    if not (out / CONFIG).is_file():
        return False
    if resume:
        there, _ = read_config(out)
        odd = [field.name for field in fields(settings) if getattr(there, field.name) != getattr(settings, field.name)]
        if odd:
            told = ", ".join(f"{name} {getattr(there, name)!r} there, {getattr(settings, name)!r} asked" for name in odd)
            raise ConfigError("out", f"{out} holds a run of other settings ({told}); name another folder, or do not resume")
        return True
    if (out / folder).is_dir():
        shutil.rmtree(out / folder)
    for name in (CURVE, METRICS):
        (out / name).unlink(missing_ok=True)
    return False


def _plans(settings: CatpSettings, evaluator: Evaluator, given: Sequence[ExecutedPlan] | None) -> Sequence[ExecutedPlan]:
    if given is not None:
        if not given:
            raise ConfigError("plans", "expected at least one executed plan")
        return given
    tasks = train_tasks(settings)
    return collect(tasks, evaluator, settings) if settings.method == "catp" else labels(tasks, evaluator)


def _board(out: Path) -> Any:
    """A writer of TensorBoard event files."""
    require("tensorboard", "train")
    return require("torch.utils.tensorboard", "train").SummaryWriter(str(out))


def _cut_curve(path: Path, steps: int) -> None:
    """Drops what the curve has beyond a step, such as the steps after the checkpoint of a killed run."""
    if not path.is_file():
        return
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            if json.loads(line)["step"] <= steps:
                kept.append(line)
        except (ValueError, KeyError, TypeError):
            break  # the line that a kill cut short
    path.write_text("".join(line + "\n" for line in kept), encoding="utf-8")


def read_curve(run: str | Path) -> list[dict[str, float]]:
    """The learning curve of a run: `step`, `loss` and, where they were worked out, figures on the train tasks.

    Raises:
        DataError: there is none, or a line is no JSON.
    """
    path = Path(run) / CURVE
    if not path.is_file():
        raise DataError(run, f"no learning curve: {CURVE} is missing")
    lines: list[dict[str, float]] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            lines.append(json.loads(line))
        except ValueError as error:
            raise DataError(path, f"not JSON: {error}", f"line {number}") from error
    return lines
