"""The one loop that optimises weights with torch: `optimise` runs a `Learner` in the folder of a training run."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import torch

from ...agents.checkpoints import OPTIMIZER, load_weights, read_state, read_tensors
from ...simulators.draws import stable_integer
from ...simulators.errors import DataError, TrainingFailed
from .curve import read_curve
from .run import TrainingResult, TrainingRun, TrainingStep

SAVE_EVERY = 250
"""Steps between checkpoints."""
_RECENT = 50
"""Last steps whose losses a run's loss is the mean of."""

Loss = tuple[Any, dict[str, float]]
"""A loss to go down, and figures beside it for the learning curve."""


class Learner(ABC):
    """What the training loop optimises.

    Attributes:
        weights: the trained weights by name.
        seed: of the run.
        adamw: arguments of AdamW besides the weights and the learning rate.
        max_grad_norm: norm to which gradients are clipped.
        stage: part of the run, "" where there is one.
    """

    weights: dict[str, Any]
    seed: int
    adamw: Mapping[str, Any]
    max_grad_norm: float = 1.0
    stage: str = ""
    random_key: ClassVar[tuple[str | int, ...]] = ("dropout",)

    @property
    @abstractmethod
    def steps(self) -> int:
        """Steps in all, as far as is known."""

    @abstractmethod
    def rate(self, step: int) -> float:
        """Learning rate of a step, counted from 0."""

    @abstractmethod
    def loss(self, step: int) -> Loss:
        """Loss of a step; what it draws depends on the seed and the step alone."""

    def check(self) -> dict[str, float]:
        """Work out figures of what is learnt, at the end and where it is asked for."""
        return {}

    def state(self) -> dict[str, Any]:
        """What else a checkpoint keeps, as JSON."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:  # noqa: B027  # most learners keep nothing else
        """Take up what `state` gave."""


def optimise(
    run: TrainingRun,
    learner: Learner,
    save_every: int = SAVE_EVERY,
    check_every: int = 0,
    before: int = 0,
    after: int = 0,
) -> TrainingResult:
    """Take a learner's steps, from the run's newest checkpoint to their end, and write the run's metrics.

    Args:
        run: keeps checkpoints, learning curve and metrics.
        learner: what is optimised.
        save_every: steps between checkpoints.
        check_every: steps between figures of `Learner.check` in the learning curve; 0: only at the end, in the metrics.
        before, after: steps of the run's other stages, for the progress alone.

    Raises:
        TrainingFailed: the loss or a weight is no finite number; the last good checkpoint stays.
        DataError: the checkpoint to go on from is damaged.
    """
    weights = learner.weights
    stage = f"{learner.stage}: " if learner.stage else ""
    run.say(f"{stage}{sum(weight.numel() for weight in weights.values()):,} weights to train")
    optimizer = torch.optim.AdamW(weights.values(), lr=learner.rate(0), **learner.adamw)
    step, kept = 0, run.checkpoint
    if kept is not None:
        load_weights(kept, weights)
        load_moments(read_tensors(kept / OPTIMIZER), weights, optimizer, kept / OPTIMIZER)
        state = read_state(kept)
        learner.restore(state)
        step = state["step"]
        run.say(f"{stage}going on from step {step}")
    run.curve.cut(step)
    metrics: dict[str, float] = {}
    while step < learner.steps:
        rate = learner.rate(step)
        for group in optimizer.param_groups:
            group["lr"] = rate
        chance = stable_integer(learner.seed, *learner.random_key, step) >> 1
        with own_chance(chance):
            loss, figures = take_step(optimizer, weights, partial(learner.loss, step), learner.max_grad_norm, step, kept)
        step += 1
        last = step >= learner.steps
        if last or step % save_every == 0:
            check_finite(weights, step, kept)
        metrics = learner.check() if last or (check_every and step % check_every == 0) else {}
        line = {"loss": loss, **figures, "learning_rate": rate, **(metrics if check_every else {})}
        stopped = run.report(TrainingStep(learner.stage, step, before + step, before + learner.steps + after, line))
        if last or stopped or step % save_every == 0:
            run.save(step, weights, moments(weights, optimizer), {"loss": loss, **learner.state()})
            kept = run.checkpoint
        if stopped and not last:
            return TrainingResult(run.folder, step, {}, finished=False)
    losses = [line["loss"] for line in read_curve(run.folder)[-_RECENT:]]
    metrics = {"loss": sum(losses) / len(losses), **(metrics or learner.check())}
    run.say(stage + ", ".join(f"{name} {value:.4f}" for name, value in metrics.items()))
    return run.finish(step, metrics)


def take_step(
    optimizer: Any, weights: Mapping[str, Any], loss: Callable[[], Loss], max_grad_norm: float, step: int, kept: object = None
) -> tuple[float, dict[str, float]]:
    """Take one step of an optimiser.

    Args:
        optimizer: over the weights.
        weights: by name.
        loss: works out the loss.
        max_grad_norm: norm to which gradients are clipped.
        step: number of the step, and
        kept: the last good checkpoint, to tell where the loss is no finite number.

    Returns:
        The loss, and the figures beside it.

    Raises:
        TrainingFailed: the loss is no finite number.
    """
    value, figures = loss()
    number = float(value.detach())
    if not math.isfinite(number):
        raise TrainingFailed(step, f"the loss is {number}", kept)
    optimizer.zero_grad(set_to_none=True)
    value.backward()
    torch.nn.utils.clip_grad_norm_(list(weights.values()), max_grad_norm)
    optimizer.step()
    return number, figures


@contextmanager
def own_chance(seed: int) -> Iterator[None]:
    """Let torch's own chance, such as dropout, depend on a seed alone, and leave the caller's as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def check_finite(weights: Mapping[str, Any], step: int, kept: object) -> None:
    """Raise TrainingFailed where a weight is no finite number."""
    for name, weight in weights.items():
        if not bool(torch.isfinite(weight).all()):
            raise TrainingFailed(step, f"the weight {name} is no longer a finite number", kept)


def moments(weights: Mapping[str, Any], optimizer: Any) -> dict[str, Any]:
    """Collect the state of an optimiser over some weights, in their order, as tensors by name."""
    state = optimizer.state_dict()["state"]
    return {f"{key}/{name}": value for number, name in enumerate(weights) for key, value in state.get(number, {}).items()}


def load_moments(tensors: Mapping[str, Any], weights: Mapping[str, Any], optimizer: Any, source: Path) -> None:
    """Restore what `moments` collected.

    Raises:
        DataError: they are those of other weights.
    """
    numbers = {name: number for number, name in enumerate(weights)}
    state: dict[int, dict[str, Any]] = {}
    for key, value in tensors.items():
        kind, _, name = key.partition("/")
        if name not in numbers:
            raise DataError(source, f"the optimiser of another policy; it has {key!r}")
        state.setdefault(numbers[name], {})[kind] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
