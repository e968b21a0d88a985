"""TRL's GRPO trainer, for episodes of which the model says a part only."""

from typing import Any

import torch
import trl


class GrpoTrainer(trl.GRPOTrainer):  # type: ignore[misc]
    """Works out the probabilities of what the model said, a row at a time; the loss is TRL's.

    TRL alone does so for every token where there is no Triton: prompts, results of tools and padding included, each with logits
    of the whole vocabulary, which takes longer than all the rest of a step.
    """

    _marks: Any = None

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Any:
        self._marks = inputs.get("tool_mask")
        try:
            return super()._compute_loss(model, inputs)
        finally:
            self._marks = None

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: Any, attention_mask: Any, logits_to_keep: int, *_: Any, **__: Any
    ) -> tuple[Any, Any, None]:
        """Log-probabilities and entropies, (rows, logits_to_keep); zero where the model said nothing."""
        shown = attention_mask[:, -logits_to_keep:]
        marks = shown if self._marks is None else shown * self._marks
        found = [
            self._row(model, ids[present.bool()], int(present[:-logits_to_keep].sum()), mark)
            for ids, present, mark in zip(input_ids, attention_mask, marks, strict=True)
        ]
        logps, entropies = (torch.stack(parts) for parts in zip(*found, strict=True))
        return logps, entropies, None

    def _row(self, model: Any, ids: Any, prompt: int, mark: Any) -> tuple[Any, Any]:
        # logits of the positions before the model's own tokens alone: the vocabulary's matrix is most of the work
        said = mark.nonzero()[:, 0]
        with self.accelerator.autocast():
            logits = model(input_ids=ids[None], logits_to_keep=prompt + said - 1, use_cache=False).logits[0]
        shares = torch.log_softmax(logits.float() / self.temperature, dim=-1)
        logps = shares.new_zeros(mark.shape).index_put((said,), shares.gather(-1, ids[prompt + said][:, None])[:, 0])
        with torch.no_grad():
            entropies = shares.new_zeros(mark.shape).index_put((said,), -(shares.exp() * shares).sum(-1))
        return logps, entropies
