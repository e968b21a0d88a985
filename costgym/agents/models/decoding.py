"""Replies of a local model to several conversations at once, a token of each at a time.

A conversation that ends makes room for the next one at once: none waits for the longest reply of a batch. What was read of a
conversation is not read again when it goes on.
"""

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any

from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from costgym.simulators.errors import ConfigError, require

_COLUMNS = 256  # tokens by which the rows grow


class Decoder:
    """Rows of conversations, one a seat, until token `end` or `most` tokens; raises ConfigError for windowed attention."""

    def __init__(self, model: Any, end: int, seats: int, most: int, choose: Callable[[Any], list[int]] | None = None) -> None:
        self._torch, self._model, self._end, self._most = require("torch", "llm"), model, end, most
        self._choose = choose or _likeliest
        if any(type(layer) is not DynamicLayer for layer in DynamicCache(config=model.config).layers):
            raise ConfigError("--batch", "expected a model whose layers all see the whole context; play it without --batch")
        self._cache = _Rows(self._torch, seats)
        self._row = list(range(seats))
        self._read: list[list[int]] = [[] for _ in range(seats)]
        self._written: dict[int, list[int]] = {}

    def begin(self, seat: int, prompt: Sequence[int]) -> None:
        """Read a prompt, as far as the seat has not read it before, and say the first token."""
        before = self._read[seat]
        # the last token is always read again, because the model continues after it
        known = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(prompt[:-1], before, strict=False)))
        positions = self._torch.arange(known, len(prompt), device=self._model.device)[None]
        self._read[seat] = list(prompt)
        self._written[seat] = self._next([prompt[known:]], positions, seat)

    def step(self) -> dict[int, list[int]]:
        """Say one token more in every conversation under way, and take out those replies that are complete."""
        done = {seat: tokens for seat, tokens in self._written.items() if tokens[-1] == self._end or len(tokens) >= self._most}
        for seat in done:
            del self._written[seat]
        if done or not self._written:
            return done
        rows = self._make_dense()
        seats = sorted(range(len(self._row)), key=self._row.__getitem__)[:rows]
        # a row without a conversation says something, too, behind what counts; it may not make the others wider, so it forgets
        width = max(len(self._read[seat]) for seat in self._written)
        for seat in seats:
            del self._read[seat][width:]
        spoken = [[self._written[seat][-1] if seat in self._written else self._end] for seat in seats]
        positions = self._torch.tensor([[len(self._read[seat])] for seat in seats], device=self._model.device)
        following = dict(zip(seats, self._next(spoken, positions), strict=True))
        for seat, tokens in self._written.items():
            self._read[seat].append(tokens[-1])
            tokens.append(following[seat])
        return {}

    def _make_dense(self) -> int:
        """Return how many of the first rows have all conversations; where half of them have none, the order changes."""
        active = sorted(self._written)
        # a forward pass computes every row up to the last active one, so half-empty batches are packed first
        rows = 1 + max(self._row[seat] for seat in active)
        if 2 * len(active) <= rows:
            rows = len(active)
            seats = [*active, *(seat for seat in range(len(self._row)) if seat not in self._written)]
            self._cache.order([self._row[seat] for seat in seats])
            for row, seat in enumerate(seats):
                self._row[seat] = row
        return rows

    def _next(self, tokens: Sequence[Sequence[int]], positions: Any, seat: int | None = None) -> list[int]:
        """Return the token after each row of tokens: those of one seat, or one token for each of the first rows."""
        torch, cache = self._torch, self._cache
        width = int(positions.max()) + 1
        first = 0 if seat is None else self._row[seat]
        cache.open(slice(first, first + len(tokens)), positions, width)
        mask = torch.arange(width, device=positions.device) <= positions[..., None]
        with torch.inference_mode():
            output = self._model(
                input_ids=torch.tensor(tokens, device=positions.device),
                attention_mask=mask[:, None],
                position_ids=positions,
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
            )
            return self._choose(output.logits[:, -1])


def _likeliest(logits: Any) -> list[int]:
    tokens: list[int] = logits.argmax(-1).tolist()
    return tokens


class _Rows(Cache):  # type: ignore[misc]
    """Keys and values, a row of columns for each seat; what stands behind a seat's columns does not count."""

    def __init__(self, torch: Any, seats: int) -> None:
        super().__init__(layers=[])
        self._torch, self._seats = torch, seats
        self._cache: list[list[Any]] = []

    def open(self, rows: slice, positions: Any, width: int) -> None:
        """The next pass is of these rows, and writes these columns."""
        self._open, self._positions, self._width = rows, positions, width

    def order(self, rows: list[int]) -> None:
        self._cache = [[part[rows] for part in parts] for parts in self._cache]

    def update(self, keys: Any, values: Any, layer: int, *_: Any, **__: Any) -> tuple[Any, Any]:
        torch = self._torch
        if layer == len(self._cache):
            self._cache.append([part.new_zeros((self._seats, part.shape[1], 0, part.shape[3])) for part in (keys, values)])
        for number, part in enumerate((keys, values)):
            whole = self._cache[layer][number]
            # grown in steps of many columns: growing by one token copies the whole cache at every token
            if whole.shape[2] < self._width:
                more = max(whole.shape[2] + _COLUMNS, self._width) - whole.shape[2]
                whole = torch.cat([whole, whole.new_zeros((*whole.shape[:2], more, whole.shape[3]))], dim=2)
                self._cache[layer][number] = whole
            rows = torch.arange(self._seats, device=whole.device)[self._open, None]
            whole[rows, :, self._positions] = part.transpose(1, 2)
        first, second = (whole[self._open, :, : self._width] for whole in self._cache[layer])
        return first, second

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self._width
