"""The learner of supervised fine-tuning: cross-entropy of what the assistant says."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from costgym.agents.networks import trained_weights
from costgym.experiments.train.loop import Learner, Loss
from costgym.experiments.train.sft.episodes import TokenRow
from costgym.experiments.train.sft.settings import SftSettings


class SftLearner(Learner):
    """Trains a language model on rows in training order, a batch for each step; `held` are rows of unseen tasks, to check."""

    settings: SftSettings

    def __init__(self, model: Any, settings: SftSettings, rows: Sequence[TokenRow], held: Sequence[TokenRow]) -> None:
        super().__init__(trained_weights(model), settings, weight_decay=settings.weight_decay)
        self.model, self.rows, self.held = model.train(), rows, held

    def rate(self, step: int) -> float:
        settings = self.settings
        rise = min(1.0, (step + 1) / max(1, settings.warmup_steps))
        falling = settings.steps * settings.final_share
        fall = min(1.0, (settings.steps - step) / falling) if falling else 1.0
        return settings.learning_rate * rise * (0.1 + 0.9 * fall)

    def loss(self, step: int) -> Loss:
        size = self.settings.batch_size
        batch = self.rows[step * size : (step + 1) * size]
        tokens = sum(len(row.learnt_at) for row in batch)
        total = torch.zeros((), device=self.model.device)
        for row in batch:  # one at a time: nothing is padded, and a row fills the processor
            logits, wanted = self._logits(row)
            total = total + cross_entropy(logits.float(), wanted, reduction="sum") / tokens
        return total, {"tokens": float(sum(len(row.ids) for row in batch))}

    def _logits(self, row: TokenRow) -> tuple[Any, Any]:
        """Return the logits of the tokens that are said, (said, vocabulary), and their ids, (said,)."""
        ids = torch.tensor(row.ids, device=self.model.device)
        positions = torch.tensor(row.learnt_at, device=self.model.device)
        with torch.autocast(self.model.device.type, torch.bfloat16, enabled=self.settings.bf16):
            logits = self.model(input_ids=ids[None], logits_to_keep=positions - 1, use_cache=False).logits[0]
        return logits, ids[positions]

    def check(self) -> dict[str, float]:
        """Loss on unseen tasks, and the share of the assistant's turns of which each token is the likeliest."""
        self.model.eval()
        total, tokens, turns, right = 0.0, 0, 0, 0
        with torch.inference_mode():
            for row in self.held:
                logits, wanted = self._logits(row)
                total += float(cross_entropy(logits.float(), wanted, reduction="sum"))
                tokens += len(row.learnt_at)
                likeliest = (logits.argmax(-1) == wanted).tolist()
                for start, stop in _turns(row.learnt_at):
                    turns, right = turns + 1, right + all(likeliest[start:stop])
        self.model.train()
        return {"unseen_loss": total / tokens, "unseen_turns_right": right / turns}


def _turns(positions: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Split the positions that are said into turns, as ranges of their indices."""
    start = 0
    for end in range(1, len(positions) + 1):
        if end == len(positions) or positions[end] != positions[end - 1] + 1:
            yield start, end
            start = end
