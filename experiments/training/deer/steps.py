"""The optimiser's steps of a DEER run, taken by TRL's supervised fine-tuning: first of looking up, then of deciding."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ....agents.checkpoints import save
from ....agents.deer.language_model import completion_loss
from ....simulators.errors import TrainingFailed
from .retrieval import LEARNT, RECENT, TokenRow

CURVE = "curve.jsonl"


@dataclass
class LookingUp:
    """How far looking up has come.

    Attributes:
        most: steps it may take.
        steps: taken.
        recent: shares of right answers of the last steps, each before the step.
    """

    most: int
    steps: int = 0
    recent: list[float] = field(default_factory=list)

    @property
    def over(self) -> bool:
        """It is learnt, or has taken the steps it may."""
        return self.steps >= self.most or self.learnt

    @property
    def learnt(self) -> bool:
        """Words are looked up rightly."""
        return len(self.recent) == RECENT and self.share >= LEARNT

    @property
    def share(self) -> float:
        """Of right answers, over the last steps."""
        return sum(self.recent) / max(1, len(self.recent))

    def went(self, share: float) -> None:
        """Another step, with its share of right answers."""
        self.steps += 1
        self.recent = [*self.recent, share][-RECENT:]

    def state(self) -> dict[str, Any]:
        """As a checkpoint keeps it."""
        return {"looking_up": self.steps, "recent": self.recent}

    @classmethod
    def restored(cls, most: int, state: Mapping[str, Any]) -> LookingUp:
        """From a checkpoint."""
        return cls(most, int(state["looking_up"]), [float(share) for share in state["recent"]])


class Stage(NamedTuple):
    """A stretch of steps.

    Attributes:
        rows, order: what is learnt from: indices of rows, shape (steps * batch,).
        batch: rows of a step.
        begins, ends: steps of the run before its first one, and after its last.
        rate: learning rate of each of its steps, counted from 0.
        looking: it looks up, and ends as soon as that is learnt.
        total: steps of the run, as far as is known.
    """

    rows: Sequence[TokenRow]
    order: Sequence[int]
    batch: int
    begins: int
    ends: int
    rate: Callable[[int], float]
    looking: bool
    total: int


class Learner(NamedTuple):
    """What learns, and where it is kept.

    Attributes:
        folder: of the run.
        model, tokenizer: a causal language model and its tokenizer.
        weights: those that are trained, by name.
        optimizer: an AdamW over them, in the same order.
        looking_up: how far that has come; counts on.
        save_every: steps between checkpoints.
        stop: asked after each step; the run then saves and ends.
        progress: called with the steps done and to do.
    """

    folder: Path
    model: Any
    tokenizer: Any
    weights: dict[str, Any]
    optimizer: Any
    looking_up: LookingUp
    save_every: int
    stop: Callable[[int], bool] | None
    progress: Callable[[int, int], None] | None


def take_steps(learner: Learner, stage: Stage, start: int, kept: Path | None, seed: int) -> tuple[int, Path | None, bool]:
    """The steps of a stage from one of the run's steps on.

    Args:
        learner: see there.
        stage: see there.
        start: steps of the run that were taken.
        kept: the last checkpoint.
        seed: of the trainer.

    Returns:
        The steps of the run taken in all, the last checkpoint, and whether `stop` ended them.

    Raises:
        TrainingFailed: the loss or a weight is no finite number.
    """
    import datasets
    import torch
    import transformers
    import trl

    optimizer, looking_up = learner.optimizer, learner.looking_up
    last: dict[str, Any] = {"loss": math.nan, "right": math.nan, "step": start, "kept": kept, "stopped": False}
    curve = (learner.folder / CURVE).open("a", encoding="utf-8")

    class Trainer(trl.SFTTrainer):  # type: ignore[misc]
        def _get_train_sampler(self, train_dataset: Any = None) -> Any:
            return _Ordered(stage.order[(start - stage.begins) * stage.batch :])

        def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            unwrapped = self.accelerator.unwrap_model(model)
            loss, right = completion_loss(unwrapped, inputs["input_ids"], inputs["attention_mask"], inputs["labels"])
            last["loss"], last["right"] = float(loss.detach()), float(right)
            if not math.isfinite(last["loss"]):
                raise TrainingFailed(last["step"], f"the loss is {last['loss']}", last["kept"])
            return loss

    class Keeper(transformers.TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            step = last["step"] = start + int(state.global_step)
            line = {"step": step, "loss": last["loss"]}
            if stage.looking:
                looking_up.went(last["right"])
                line["looked_up"] = last["right"]
            curve.write(json.dumps(line) + "\n")
            last["stopped"] = learner.stop is not None and learner.stop(step)
            done = step == stage.ends and not stage.looking
            if step % learner.save_every == 0 or done or last["stopped"]:
                if not all(bool(torch.isfinite(weight).all()) for weight in learner.weights.values()):
                    raise TrainingFailed(step, "a weight is no longer a finite number", last["kept"])
                curve.flush()
                told = {"loss": last["loss"], **looking_up.state()}
                last["kept"] = save(learner.folder, step, learner.weights, optimizer, told)
            learnt = stage.looking and looking_up.over
            control.should_training_stop = control.should_training_stop or last["stopped"] or learnt
            if learner.progress is not None:
                learner.progress(step, stage.total)

    for group in optimizer.param_groups:
        group["lr"] = group["initial_lr"] = 1.0
    arguments = trl.SFTConfig(
        output_dir=str(learner.folder / ".trainer"),
        max_steps=stage.ends - start,
        per_device_train_batch_size=stage.batch,
        max_grad_norm=1.0,
        completion_only_loss=True,
        max_length=None,
        bf16=False,
        report_to="none",
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        gradient_checkpointing=False,
        use_cpu=not torch.cuda.is_available(),
        dataloader_pin_memory=torch.cuda.is_available(),
        log_level="error",
        seed=seed,
        dataset_kwargs={"skip_prepare_dataset": True},
        remove_unused_columns=False,
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: stage.rate(start - stage.begins + step))
    features = datasets.Features({name: datasets.List(datasets.Value("int64")) for name in ("input_ids", "labels")})
    trainer = Trainer(
        model=learner.model,
        args=arguments,
        train_dataset=datasets.Dataset.from_list([row._asdict() for row in stage.rows], features=features),
        processing_class=learner.tokenizer,
        optimizers=(optimizer, schedule),
        callbacks=[Keeper()],
    )
    trainer.remove_callback(transformers.PrinterCallback)
    try:
        trainer.train()
    finally:
        curve.close()
    return int(last["step"]), last["kept"], bool(last["stopped"])


class _Ordered:
    """A sampler that has its order given."""

    def __init__(self, order: Sequence[int]) -> None:
        self._order = order

    def __iter__(self) -> Iterator[int]:
        return iter(self._order)

    def __len__(self) -> int:
        return len(self._order)
