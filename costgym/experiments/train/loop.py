"""The training loop of torch models: `optimise` runs a `Learner` in the folder of a training run."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import torch

from costgym.agents.checkpoints import OPTIMIZER, load_weights, read_state, read_tensors
from costgym.agents.networks import not_finite
from costgym.experiments.train.run import TrainingResult, TrainingRun, TrainingStep, read_curve
from costgym.simulators.draws import stable_integer
from costgym.simulators.errors import DataError, TrainingFailed

_RECENT = 50
"""Number of last steps over which the `loss` metric is averaged."""

Loss = tuple[Any, dict[str, float]]
"""The loss to minimise, and further values of the step for the learning curve, by name."""


class Learner(ABC):
    """Base class of the models and losses that the training loop optimises, by settings with `steps`, a `seed` and the
    `max_grad_norm`."""

    weights: dict[str, Any]
    settings: Any
    seed: int
    adamw: Mapping[str, Any]  # arguments of AdamW other than the weights and the learning rate
    max_grad_norm: float = 1.0  # maximum norm of the gradients
    stage: str = ""  # name of the run's stage; "" if the run has a single stage
    faster: Mapping[str, float] = MappingProxyType({})  # by how much the rate of some weights is higher, by name
    random_key: ClassVar[tuple[str | int, ...]] = ("dropout",)

    def __init__(self, weights: dict[str, Any], settings: Any, **adamw: Any) -> None:
        self.weights, self.settings, self.adamw = weights, settings, adamw
        self.seed, self.max_grad_norm = settings.seed, settings.max_grad_norm

    @property
    def steps(self) -> int:
        """Total number of steps; it may change while a learner decides how long to train."""
        return int(self.settings.steps)

    @abstractmethod
    def rate(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""

    @abstractmethod
    def loss(self, step: int) -> Loss:
        """Compute the loss of a step; random draws depend on the seed and the step number alone."""

    def losses(self, step: int) -> Iterator[Loss]:
        """Compute the parts of the loss of a step. Each is differentiated before the next is computed, so that memory holds
        what one gradient needs."""
        yield self.loss(step)

    def complete(self) -> None:  # noqa: B027  # most learners have nothing to add
        """Compute, after the last step, what else belongs to the weights; they are saved next."""

    def check(self) -> dict[str, float]:
        """Evaluate the weights and return metrics by name; called at the end and every `check_every` steps."""
        return {}

    def state(self) -> dict[str, Any]:
        """Return further state for the checkpoint, as JSON values."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:  # noqa: B027  # most learners have no further state
        """Restore what `state` returned."""


def optimise(
    run: TrainingRun, learner: Learner, save_every: int = 250, check_every: int = 0, before: int = 0, after: int = 0
) -> TrainingResult:
    """Train a learner from the run's newest checkpoint to its last step, and write the run's metrics.

    Checkpoints are `save_every` steps apart, and evaluations by `Learner.check`, which go into the learning curve,
    `check_every`; with 0 there is only the one at the end, which goes into the metrics. `before` and `after` are the steps of
    the run's other stages, for its progress. Raises TrainingFailed if the loss or a weight is not finite (the last good
    checkpoint is kept), and DataError if the checkpoint to resume from is damaged.
    """
    weights = learner.weights
    stage = f"{learner.stage}: " if learner.stage else ""
    run.say(f"{stage}{sum(weight.numel() for weight in weights.values()):,} weights to train")
    optimizer = torch.optim.AdamW(rate_groups(weights, learner.faster), lr=learner.rate(0), **learner.adamw)
    step, checkpoint = 0, run.checkpoint
    if checkpoint is not None:
        load_weights(checkpoint, weights)
        load_moments(read_tensors(checkpoint / OPTIMIZER), weights, optimizer, checkpoint / OPTIMIZER)
        state = read_state(checkpoint)
        learner.restore(state)
        step = state["step"]
        run.say(f"{stage}resuming from step {step}")
    run.cut_curve(step)
    metrics: dict[str, float] = {}
    while step < learner.steps:
        rate = learner.rate(step)
        for group in optimizer.param_groups:
            group["lr"] = rate * group["faster"]
        # seeded by step: a resumed run draws the dropout that the uninterrupted one drew
        chance = stable_integer(learner.seed, *learner.random_key, step) >> 1
        with own_chance(chance):
            loss, figures = take_step(
                optimizer, weights, partial(learner.losses, step), learner.max_grad_norm, step, checkpoint
            )
        step += 1
        last = step >= learner.steps
        if last:
            learner.complete()
        # before a checkpoint is written, so that the last one is always good
        if last or step % save_every == 0:
            check_finite(weights, step, checkpoint)
        # with 0 what was learnt is saved before the one check, which can take as long as the training
        metrics = learner.check() if check_every and (last or step % check_every == 0) else {}
        line = {"loss": loss, **figures, "learning_rate": rate, **(metrics if check_every else {})}
        stopped = run.report(TrainingStep(learner.stage, step, before + step, before + learner.steps + after, line))
        if last or stopped or step % save_every == 0:
            run.save(step, weights, moments(weights, optimizer), {"loss": loss, **learner.state()})
            checkpoint = run.checkpoint
        if stopped and not last:
            return TrainingResult(run.folder, step, {}, finished=False)
    losses = [line["loss"] for line in read_curve(run.folder)[-_RECENT:]]
    metrics = {"loss": sum(losses) / len(losses), **(metrics or learner.check())}
    run.say(stage + ", ".join(f"{name} {value:.4f}" for name, value in metrics.items()))
    return run.finish(step, metrics)


def rate_groups(weights: Mapping[str, Any], faster: Mapping[str, float]) -> list[dict[str, Any]]:
    """Split weights, in their order, into an optimizer's groups of one learning rate each."""
    by_rate = groupby(weights, key=lambda name: faster.get(name, 1.0))
    return [{"params": [weights[name] for name in names], "faster": factor} for factor, names in by_rate]


def take_step(
    optimizer: Any,
    weights: Mapping[str, Any],
    losses: Callable[[], Iterable[Loss]],
    max_grad_norm: float,
    step: int,
    checkpoint: object = None,
) -> tuple[float, dict[str, float]]:
    """Take one step of an optimiser; returns the sum of the losses and their further values. Raises TrainingFailed if a loss is
    not finite, with the step's number and the last good checkpoint."""
    number, figures = 0.0, {}
    optimizer.zero_grad(set_to_none=True)
    for value, values in losses():
        number += float(value.detach())
        if not math.isfinite(number):
            raise TrainingFailed(step, f"the loss is {number}", checkpoint)
        value.backward()
        figures.update(values)
    torch.nn.utils.clip_grad_norm_(list(weights.values()), max_grad_norm)
    optimizer.step()
    return number, figures


@contextmanager
def own_chance(seed: int) -> Iterator[None]:
    """Seed torch's random generators, which dropout uses, and restore the caller's state afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def check_finite(weights: Mapping[str, Any], step: int, checkpoint: object) -> None:
    """Raise TrainingFailed if a weight is not finite."""
    name = not_finite(weights)
    if name is not None:
        raise TrainingFailed(step, f"the weight {name} is no longer a finite number", checkpoint)


def moments(weights: Mapping[str, Any], optimizer: Any) -> dict[str, Any]:
    """Collect an optimizer's state as tensors by name; `weights` are in the optimizer's order."""
    state = optimizer.state_dict()["state"]
    return {f"{key}/{name}": value for number, name in enumerate(weights) for key, value in state.get(number, {}).items()}


def load_moments(tensors: Mapping[str, Any], weights: Mapping[str, Any], optimizer: Any, source: Path) -> None:
    """Restore an optimizer's state that `moments` collected."""
    numbers = {name: number for number, name in enumerate(weights)}
    state: dict[int, dict[str, Any]] = {}
    for key, value in tensors.items():
        kind, _, name = key.partition("/")
        if name not in numbers:
            raise DataError(source, f"optimizer state of another policy (it contains {key!r})")
        state.setdefault(numbers[name], {})[kind] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
