"""Keys and values of what a local model has read, so that a conversation that goes on is not read from its beginning."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from ...simulators.errors import require


class Read(NamedTuple):
    """What the model has read of one conversation.

    Attributes:
        tokens: the conversation's.
        layers: keys and values of each layer; shape (heads, tokens, width).
    """

    tokens: list[int]
    layers: list[tuple[Any, Any]]


class Batched(NamedTuple):
    """Prompts as `generate` takes them: what was read before of each stands left of `read`, its rest right of it.

    Attributes:
        tokens, mask: shape (prompts, length); the mask is 0 where nothing stands.
        read: number of columns of what was read.
        cache: holds these columns; None where there are none.
    """

    tokens: Any
    mask: Any
    read: int
    cache: Any


class Prefixes:
    """Remembers the last prompts of a model.

    Args:
        model: a causal language model of transformers.
        pad: token where nothing stands.
    """

    def __init__(self, model: Any, pad: int) -> None:
        self._torch, self._model, self._pad = require("torch", "llm"), model, pad
        self._kept: deque[Read] = deque(maxlen=1)

    def batch(self, prompts: Sequence[list[int]]) -> Batched:
        """Lay out prompts, each after the longest beginning of it that was read before."""
        torch, device = self._torch, self._model.device
        found = [self._longest(prompt) for prompt in prompts]
        read = max(length for _, length in found)
        rest = max(len(prompt) - length for prompt, (_, length) in zip(prompts, found, strict=True))
        tokens = torch.full((len(prompts), read + rest), self._pad, device=device)
        mask = torch.zeros_like(tokens)
        for row, (prompt, (_, length)) in enumerate(zip(prompts, found, strict=True)):
            for stop, part in ((read, prompt[:length]), (read + rest, prompt[length:])):
                tokens[row, stop - len(part) : stop] = torch.tensor(part, device=device)
                mask[row, stop - len(part) : stop] = 1
        return Batched(tokens, mask, read, self._cache(found, read) if read else None)

    def keep(self, batch: Batched, cache: Any, said: Sequence[list[int]]) -> None:
        """Remember a batch after its replies.

        Args:
            batch: the prompts.
            cache: keys and values of all that was fed to the model.
            said: what the model said, without the last token, which was not fed.
        """
        from transformers.cache_utils import DynamicLayer

        if any(type(layer) is not DynamicLayer for layer in cache.layers):
            return  # a sliding window forgets beginnings
        torch, width = self._torch, batch.tokens.shape[1]
        self._kept = deque(self._kept, maxlen=max(2 * len(said), self._kept.maxlen or 1))
        for row, reply in enumerate(said):
            own = torch.cat(
                [batch.mask[row].nonzero()[:, 0], torch.arange(width, width + len(reply), device=batch.mask.device)]
            )
            layers = [(layer.keys[row][:, own], layer.values[row][:, own]) for layer in cache.layers]
            self._kept.append(Read(batch.tokens[row][batch.mask[row] > 0].tolist() + reply, layers))

    def _longest(self, prompt: list[int]) -> tuple[Read | None, int]:
        """What was read before that has the longest beginning in common with a prompt, and how long it is; the last token is
        always read anew, for the model speaks after it.
        """
        best: tuple[Read | None, int] = (None, 0)
        for read in self._kept:
            pairs = zip(prompt[:-1], read.tokens, strict=False)
            length = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
            if length > best[1]:
                best = (read, length)
        return best

    def _cache(self, found: Sequence[tuple[Read | None, int]], read: int) -> Any:
        from transformers import DynamicCache

        some = next(entry for entry, _ in found if entry is not None)
        layers = []
        for number, pair in enumerate(some.layers):
            filled = [part.new_zeros((len(found), part.shape[0], read, part.shape[2])) for part in pair]
            for row, (entry, length) in enumerate(found):
                if entry is not None:
                    for whole, part in zip(filled, entry.layers[number], strict=True):
                        whole[row, :, read - length :] = part[:, :length]
            layers.append(tuple(filled))
        return DynamicCache(layers, config=self._model.config)
