"""The decisions that a DEER policy learns from, as tokens, and the order in which it learns from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ....agents.deer.language_model import IGNORED
from ....agents.deer.settings import DeerSettings
from ....agents.deer.writing import CONTROL, QUERY, Writing, completion_ids, place, prompt_ids
from ....simulators.decision.examples import Example
from ....simulators.draws import stable_generator
from .retrieval import TokenRow, first_word

NO_SEARCH_FACTOR = 4
"""So many times as often as a sample about a tool, one about none gives a row: it gives no other."""
_CHUNK = 16


def token_row(tokenizer: Any, prompt: str, completion: str) -> TokenRow:
    """Join a prompt and its completion; only the completion is learnt."""
    read, learnt = prompt_ids(tokenizer, prompt), completion_ids(tokenizer, completion)
    return TokenRow([*read, *learnt], [*[IGNORED] * len(read), *learnt])


def rows_of(known: Sequence[Example], writing: Writing, tokenizer: Any, settings: DeerSettings) -> list[TokenRow]:
    """Turn the decisions of examples into rows.

    Args:
        known: labelled examples.
        writing: how they are put into words.
        tokenizer: of the model.
        settings: shares of the rows, and the seed.
    """
    luck = stable_generator(settings.seed, "deer rows")
    rows = []
    for example in known:
        first, second = writing.rows(example)
        slots = len(example.candidates)
        share = settings.search_share * (1 if second is not None else NO_SEARCH_FACTOR)
        # a published model is asked everything: it learns from few samples
        if luck.random() < share or not writing.compact:
            row = token_row(tokenizer, *first)
            rows.append(scattered(row, slots, tokenizer, luck) if writing.compact else row)
        if second is not None:
            row = token_row(tokenizer, *second)
            if writing.compact and luck.random() < settings.rename_share:
                row = renamed(row, example.gold, slots, tokenizer, luck)
            rows.append(row)
    return rows


def scattered(row: TokenRow, slots: int, tokenizer: Any, luck: Any) -> TokenRow:
    """A first decision in which every fifth word is another one: an unknown word says nothing of whether to search."""
    first = first_word(tokenizer, slots)
    prompt = [
        int(luck.integers(first, len(tokenizer))) if label == IGNORED and token >= first and luck.random() < 0.2 else token
        for token, label in zip(*row, strict=True)
    ]
    return TokenRow(prompt, row.labels)


def renamed(row: TokenRow, gold: int | None, slots: int, tokenizer: Any, luck: Any) -> TokenRow:
    """A call decision in which some words are other words, the same ones wherever they stood.

    There are few hundred descriptions to learn from, and a policy that knows them by heart knows nothing of others. What query
    and candidates share goes on being shared; a word that only the right tool's description has may be what a user says
    otherwise, and stays.
    """
    control = {tokenizer.convert_tokens_to_ids(token) for token in CONTROL}
    places = {tokenizer.convert_tokens_to_ids(place(index)): index for index in range(slots)}
    asks = tokenizer.convert_tokens_to_ids(QUERY)
    split = row.input_ids.index(asks)
    query = set(row.input_ids[split:]) - control - places.keys()
    told: dict[int, set[int]] = {}
    at = -1
    for token in row.input_ids[:split]:
        at = places.get(token, at)
        if token not in control and token not in places:
            told.setdefault(token, set()).add(at)
    shared = [token for token in sorted(told) if token in query]
    free = [token for token in sorted(told) if token not in query and gold not in told[token]]
    asked = [token for token in sorted(query) if token not in told] if shared or gold is None else []
    first = first_word(tokenizer, slots)
    others = {
        token: int(luck.integers(first, len(tokenizer)))
        for tokens, chance in ((shared, 0.6), (free, 0.4), (asked, 0.15))
        for token in tokens
        if luck.random() < chance
    }
    prompt = [others.get(token, token) if label == IGNORED else token for token, label in zip(*row, strict=True)]
    return TokenRow(prompt, row.labels)


def learning_order(rows: Sequence[TokenRow], retrieval: int, settings: DeerSettings) -> list[int]:
    """Order the rows of all steps of decisions: indices into `rows`, then into those of retrieval.  # (steps * batch_size,)

    Rows of like length come together, in a random order of batches. Those of retrieval come in their own order.

    Args:
        rows: the decisions.
        retrieval: how many rows of retrieval there are, in whole batches.
        settings: steps, their rows, and the share of those on retrieval.
    """
    luck = stable_generator(settings.seed, "deer order")
    decisions = _batches([len(row.input_ids) for row in rows], settings.batch_size, luck)
    order: list[int] = []
    read = 0
    for _ in range(settings.steps):
        if retrieval and luck.random() < settings.retrieval_share:
            start = len(rows) + read % retrieval
            order += range(start, start + settings.batch_size)
            read += settings.batch_size
        else:
            order += next(decisions)
    return order


def _batches(lengths: Sequence[int], batch: int, luck: Any) -> Iterator[list[int]]:
    """Draw batches without end; each round takes every row once, and the first ones again where the last batch is not full."""
    while True:
        indices = luck.permutation(len(lengths)).tolist()
        indices += indices[: -len(indices) % batch]
        while len(indices) < batch:
            indices += indices[: batch - len(indices)]
        for start in range(0, len(indices), batch * _CHUNK):
            chunk = sorted(indices[start : start + batch * _CHUNK], key=lambda index: lengths[index])
            places = luck.permutation(len(chunk) // batch).tolist()
            for at in places:
                yield chunk[at * batch : (at + 1) * batch]
