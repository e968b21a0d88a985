"""Looking words up: what a small DEER model learns before it decides anything.

A published language model finds a word of a query again in a description; one with random weights does not, and the one
label of a decision hardly teaches it. So it first reads tools made of words drawn at random, and says of each word that
follows which tool has it, or that none has. Nothing in these rows can be learnt by heart and nothing in them is about any tool
or query of the world, so they are alike whatever decisions follow: they stand in for what pre-training has given a published
model. It goes on until words are looked up rightly, which comes all at once, but not at the same step for every seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..agents.deer.language_model import IGNORED
from ..agents.deer.settings import DeerSettings
from ..agents.deer.writing import CONTROL, END, NONE, QUERY, TOOLS, place
from ..simulators.draws import stable_generator

LOOKED_UP = 8
"""Words that a row asks for."""
ABSENT = 1 / 3
"""Chance that a word is drawn from all words: nearly always none of the tools has it."""
LONGEST = 5
"""Most words of a tool."""
LEARNT = 0.95
"""Share of right answers, over the last `RECENT` steps and on rows never seen before, from which on looking up is learnt."""
RECENT = 20


class TokenRow(NamedTuple):
    """A row as the trainer takes it: tokens, and what shall be answered before each; `IGNORED` where nothing is."""

    input_ids: list[int]
    labels: list[int]


def first_word(tokenizer: Any, slots: int) -> int:
    """Number of the first ordinary word: they come behind the control tokens and those of the candidates' places."""
    return 1 + max(int(tokenizer.convert_tokens_to_ids(token)) for token in (*CONTROL, *map(place, range(slots))))


def look_up_rows(steps: int, tokenizer: Any, slots: int, settings: DeerSettings) -> list[TokenRow]:
    """Rows for so many steps of looking up, in order; those of a step are equally long.

    The answers are labels only and never read: a word is asked for beside other words, as in a query.

    Args:
        steps: how many.
        tokenizer: of a small model.
        slots: tools of a row.
        settings: rows of a step, and the seed.
    """
    luck = stable_generator(settings.seed, "deer look-up")
    first, most = first_word(tokenizer, slots), len(tokenizer)
    tools, query, none, end = (int(tokenizer.convert_tokens_to_ids(token)) for token in (TOOLS, QUERY, NONE, END))
    places = [int(tokenizer.convert_tokens_to_ids(place(index))) for index in range(slots)]
    rows = []
    for _ in range(steps):
        lengths = luck.integers(1, LONGEST + 1, slots).tolist()
        owner = [mark for mark, length in zip(places, lengths, strict=True) for _ in range(length)]
        size = (settings.batch, LOOKED_UP)
        told = luck.integers(first, most, (settings.batch, len(owner)))
        absent, which, others = luck.random(size) < ABSENT, luck.integers(0, len(owner), size), luck.integers(first, most, size)
        for row in range(settings.batch):
            words: list[int] = told[row].tolist()
            asked = [
                other if away else words[index]
                for away, index, other in zip(absent[row], which[row].tolist(), others[row].tolist(), strict=True)
            ]
            prompt = [tools, *(token for pair in zip(owner, words, strict=True) for token in pair), query]
            answers = [_owner(word, words, owner, none) for word in asked]
            rows.append(TokenRow([*prompt, *asked, end], [IGNORED] * len(prompt) + [IGNORED, *answers]))
    return rows


def _owner(word: int, words: Sequence[int], owner: Sequence[int], none: int) -> int:
    """The place of the tool that has a word; `none` if no tool has it, `IGNORED` if several have."""
    found = {mark for each, mark in zip(words, owner, strict=True) if each == word}
    return found.pop() if len(found) == 1 else IGNORED if found else none
