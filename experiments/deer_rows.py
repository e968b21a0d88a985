"""What a DEER policy learns from, as tokens: decisions, and, for a small model, looking words up; and in which order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ..agents.deer.examples import Example
from ..agents.deer.language_model import IGNORED
from ..agents.deer.settings import DeerSettings
from ..agents.deer.writing import CONTROL, NONE, QUERY, Writing, completion_ids, place, prompt_ids
from ..simulators.draws import stable_generator

LOOKED_UP = 8
"""Words that a row of looking up asks for."""
MOST_LOOKED_UP = 12000
NO_SEARCH_FACTOR = 4
"""So many times as often as a sample about a tool, one about none gives a row: it gives no other."""
_CHUNK = 16


class TokenRow(NamedTuple):
    """A row as the trainer takes it: tokens, and the same with `IGNORED` for those that are read but not learnt."""

    input_ids: list[int]
    labels: list[int]


def token_row(tokenizer: Any, prompt: str, completion: str) -> TokenRow:
    """A prompt and its completion; only the completion is learnt."""
    read, learnt = prompt_ids(tokenizer, prompt), completion_ids(tokenizer, completion)
    return TokenRow([*read, *learnt], [*[IGNORED] * len(read), *learnt])


def rows_of(
    known: Sequence[Example], writing: Writing, tokenizer: Any, settings: DeerSettings
) -> tuple[list[TokenRow], list[TokenRow]]:
    """The decisions of examples as rows; and rows of looking up, which only a small model has.

    Args:
        known: labelled examples.
        writing: how they are put into words.
        tokenizer: of the model.
        settings: shares of the rows, and the seed.
    """
    luck = stable_generator(settings.seed, "deer rows")
    rows, looked_up = [], []
    for example in known:
        first, second = writing.rows(example)
        share = settings.search_share * (1 if second is not None else NO_SEARCH_FACTOR)
        # a published model is asked everything: it learns from few samples
        if luck.random() < share or not writing.compact:
            row = token_row(tokenizer, *first)
            rows.append(scattered(row, tokenizer, luck) if writing.compact else row)
        if second is not None:
            row = token_row(tokenizer, *second)
            if writing.compact and luck.random() < settings.rename_share:
                row = renamed(row, example.gold, len(example.candidates), tokenizer, luck)
            rows.append(row)
    if writing.compact and (settings.index_steps or settings.index_share):
        looked_up = [look_up_row(example, writing, tokenizer, luck) for example in known[:MOST_LOOKED_UP]]
    return rows, looked_up


def scattered(row: TokenRow, tokenizer: Any, luck: Any) -> TokenRow:
    """A first decision in which every fifth word is another one: an unknown word says nothing of whether to search."""
    first = _first_word(tokenizer, 0)
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
    first = _first_word(tokenizer, slots)
    others = {
        token: int(luck.integers(first, len(tokenizer)))
        for tokens, chance in ((shared, 0.6), (free, 0.4), (asked, 0.15))
        for token in tokens
        if luck.random() < chance
    }
    prompt = [others.get(token, token) if label == IGNORED else token for token, label in zip(*row, strict=True)]
    return TokenRow(prompt, row.labels)


def _first_word(tokenizer: Any, slots: int) -> int:
    """Number of the first ordinary word: they come behind the control tokens."""
    return 1 + max(int(tokenizer.convert_tokens_to_ids(token)) for token in (*CONTROL, *map(place, range(slots))))


def look_up_row(example: Example, writing: Writing, tokenizer: Any, luck: Any) -> TokenRow:
    """Words, each followed by the place of the tool whose description has it, or by "none"; only those are learnt.

    A word that several candidates have is not asked for. One in three stands nowhere: that no tool fits is looked up as well.
    """
    own = [prompt_ids(tokenizer, " ".join(writing.telling(tool))) for tool in example.candidates]
    tokens = prompt_ids(tokenizer, writing.index_prompt(example.candidates))
    labels = [IGNORED] * len(tokens)
    nothing = tokenizer.convert_tokens_to_ids(NONE)
    for _ in range(LOOKED_UP):
        if luck.random() < 1 / 3:
            word = int(luck.integers(_first_word(tokenizer, len(own)), len(tokenizer)))
            if not any(word in others for others in own):
                tokens, labels = [*tokens, word, nothing], [*labels, IGNORED, nothing]
            continue
        index = int(luck.integers(len(own)))
        word = own[index][int(luck.integers(len(own[index])))]
        if sum(word in others for others in own) > 1:
            continue
        answer = tokenizer.convert_tokens_to_ids(place(index))
        tokens, labels = [*tokens, word, answer], [*labels, IGNORED, answer]
    return TokenRow(tokens, labels)


def learning_order(rows: Sequence[TokenRow], looked_up: Sequence[TokenRow], settings: DeerSettings) -> list[int]:
    """Which rows each step learns from, as indices into `rows` and then `looked_up`: shape (steps * batch,).

    First only looking up, then decisions with some of it. Rows of like length come together, in a random order of batches.
    """
    luck = stable_generator(settings.seed, "deer order")
    decisions = _batches([len(row.input_ids) for row in rows], 0, settings.batch, luck)
    lookups = _batches([len(row.input_ids) for row in looked_up], len(rows), settings.batch, luck)
    order: list[int] = []
    for step in range(settings.steps):
        looking = bool(looked_up) and (step < settings.index_steps or luck.random() < settings.index_share)
        order += next(lookups if looking else decisions)
    return order


def _batches(lengths: Sequence[int], first: int, batch: int, luck: Any) -> Iterator[list[int]]:
    """Batches without end; each round takes every row once (and the first ones again where the last batch is not full)."""
    while True:
        indices = luck.permutation(len(lengths)).tolist()
        indices += indices[: -len(indices) % batch]
        while len(indices) < batch:
            indices += indices[: batch - len(indices)]
        for start in range(0, len(indices), batch * _CHUNK):
            chunk = sorted(indices[start : start + batch * _CHUNK], key=lambda index: lengths[index])
            places = luck.permutation(len(chunk) // batch).tolist()
            for at in places:
                yield [first + index for index in chunk[at * batch : (at + 1) * batch]]
