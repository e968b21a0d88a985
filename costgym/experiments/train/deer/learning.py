"""DEER's learner: retrieval pre-training until an accuracy is reached, then training on decisions."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from costgym.agents.deer.language_model import IGNORED, completion_loss
from costgym.agents.deer.settings import DeerSettings
from costgym.agents.networks import learning, padded, trained_weights
from costgym.experiments.train.deer.rows import LEARNT, RECENT, TokenRow, learning_order
from costgym.experiments.train.loop import Learner, Loss

_FEW_LENGTHS = 16
"""Batches of a published model are as long as a multiple of it: torch keeps memory for each shape that it has multiplied."""


class DeerLearner(Learner):
    """Trains a causal language model on the labelled tokens of rows: those of retrieval pre-training in their order (empty for
    a published model), then those of decisions; `pad` is the padding token's id, and `measure` computes the final metrics."""

    settings: DeerSettings

    def __init__(
        self,
        model: Any,
        settings: DeerSettings,
        pad: int,
        retrieval: Sequence[TokenRow],
        decisions: Sequence[TokenRow],
        measure: Callable[[], dict[str, float]],
    ) -> None:
        super().__init__(trained_weights(model), settings, betas=(0.9, 0.98), weight_decay=0.01)
        self.model, self.pad, self.retrieval, self.decisions, self.measure = model, pad, retrieval, decisions, measure
        self._most = len(retrieval) // settings.batch_size
        self._taken = 0  # retrieval steps taken
        self._recent: list[float] = []  # accuracies of the last retrieval steps, each measured before the weight update
        self._rows: Sequence[TokenRow] = decisions
        self._order: Sequence[int] = ()

    @property
    def steps(self) -> int:
        return self.settings.steps + (self._taken if self._decides else self._most)

    @property
    def retrieval_accuracy(self) -> float:
        """Share of correct answers over the last retrieval steps."""
        return sum(self._recent) / max(1, len(self._recent))

    @property
    def retrieval_learnt(self) -> bool:
        """Return whether `retrieval_accuracy` has reached the required value."""
        return len(self._recent) == RECENT and self.retrieval_accuracy >= LEARNT

    @property
    def _decides(self) -> bool:
        return self._taken >= self._most or self.retrieval_learnt

    def rate(self, step: int) -> float:
        return self.settings.rate(step - self._taken) if self._decides else self.settings.rate(step, falling=False)

    def loss(self, step: int) -> Loss:
        self.model.train()
        batch = self.settings.batch_size
        if not self._decides:
            loss, right = self._loss(self.retrieval[step * batch : (step + 1) * batch])
            self._taken += 1
            self._recent = [*self._recent, float(right)][-RECENT:]
            return loss, {"retrieval_accuracy": float(right)}
        if not len(self._order):
            unread = self.retrieval[self._taken * batch :] or self.retrieval
            self._rows = [*self.decisions, *unread]
            self._order = learning_order(self.decisions, len(unread), self.settings)
        start = (step - self._taken) * batch
        return self._loss([self._rows[index] for index in self._order[start : start + batch]])[0], {}

    def _loss(self, rows: Sequence[TokenRow]) -> tuple[Any, Any]:
        multiple = 1 if self.settings.small else _FEW_LENGTHS
        ids, mask = padded([row.input_ids for row in rows], self.pad, multiple)
        labels, _ = padded([row.labels for row in rows], IGNORED, multiple)
        device = next(iter(self.weights.values())).device
        with learning(self.settings, self.model):
            return completion_loss(self.model, ids.to(device), mask.to(device), labels.to(device))

    def check(self) -> dict[str, float]:
        self.model.eval()
        metrics = self.measure()
        if self._most:
            metrics["retrieval_accuracy"] = self.retrieval_accuracy
            if not self.retrieval_learnt:
                warnings.warn(
                    f"retrieval accuracy is only {self.retrieval_accuracy:.1%} after {self._most} pre-training steps, so the "
                    "decisions will be poor; increase retrieval_steps or choose another seed",
                    stacklevel=2,
                )
        return metrics

    def state(self) -> dict[str, Any]:
        return {"retrieval_steps": self._taken, "recent": self._recent}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._taken, self._recent = int(state["retrieval_steps"]), [float(share) for share in state["recent"]]
