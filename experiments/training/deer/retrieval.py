"""Retrieval pre-training: what a small DEER model learns before it decides anything.

A published language model finds a word of a query again in a description; one with random weights does not, and the one
label of a decision hardly teaches it. So it first reads tools made of words drawn at random, and says of each word that
follows which tool has it, or that none has, and behind the last one which tool has most of them. Nothing in these rows can be
learnt by heart and nothing in them is about any tool or query of the world, so they are alike whatever decisions follow: they
stand in for what pre-training has given a published model. It goes on until words are retrieved rightly, which comes all at
once, but not at the same step for every seed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from ....agents.deer.language_model import IGNORED
from ....agents.deer.settings import DeerSettings
from ....agents.deer.writing import CONTROL, DECIDE, END, NONE, QUERY, TOOLS, place
from ....simulators.draws import stable_generator

WORDS_ASKED = 8
"""Words that a row asks for."""
NOTHING = 0.2
"""Chance that no tool has anything of what a row asks for."""
ABSENT, ELSEWHERE = 0.3, 0.1
"""Chances, in other rows, that a word is drawn from all words, and that it is any tool's; else it is of the one asked for."""
MAX_TOOL_WORDS = 5
LEARNT = 0.96
"""Share of right answers, over the last `RECENT` steps and on rows never seen before, from which on retrieval is learnt."""
RECENT = 20


class TokenRow(NamedTuple):
    """A row of training: tokens, and the label of each; `IGNORED` where none is learnt."""

    input_ids: list[int]
    labels: list[int]


def first_word(tokenizer: Any, slots: int) -> int:
    """Number of the first ordinary word; control tokens and those of the candidates' places come before."""
    return 1 + max(int(tokenizer.convert_tokens_to_ids(token)) for token in (*CONTROL, *map(place, range(slots))))


def retrieval_rows(steps: int, tokenizer: Any, slots: int, settings: DeerSettings) -> list[TokenRow]:
    """Draw the rows of so many steps, in order; those of a step are equally long.

    The answers are labels only and never read: a word is asked for beside other words, as in a query. Behind the last one it is
    asked which tool has most of them.

    Args:
        steps: how many.
        tokenizer: of a small model.
        slots: tools of a row.
        settings: rows of a step, and the seed.
    """
    luck = stable_generator(settings.seed, "deer look-up")
    first, most = first_word(tokenizer, slots), len(tokenizer)
    tools, query, decide, none, end = (
        int(tokenizer.convert_tokens_to_ids(token)) for token in (TOOLS, QUERY, DECIDE, NONE, END)
    )
    places = [int(tokenizer.convert_tokens_to_ids(place(index))) for index in range(slots)]
    rows = []
    for _ in range(steps):
        lengths = luck.integers(1, MAX_TOOL_WORDS + 1, slots).tolist()
        owner = [mark for mark, length in zip(places, lengths, strict=True) for _ in range(length)]
        told = luck.integers(first, most, (settings.batch_size, len(owner)))
        for words in told.tolist():
            asked = _asked(words, owner, places, first, most, luck)
            answers = [_owner([word], words, owner, none) for word in asked]
            prompt = [tools, *(token for pair in zip(owner, words, strict=True) for token in pair), query]
            labels = [IGNORED] * (len(prompt) + 1) + [*answers, _owner(asked, words, owner, none)]
            rows.append(TokenRow([*prompt, *asked, decide, end], labels))
    return rows


def _asked(words: Sequence[int], owner: Sequence[int], places: Sequence[int], first: int, most: int, luck: Any) -> list[int]:
    """Draw words to ask for: some of one tool, some of any, and some from all."""
    asked: list[int] = luck.integers(first, most, WORDS_ASKED).tolist()
    if luck.random() < NOTHING:
        return asked
    mark = places[int(luck.integers(len(places)))]
    own = [word for word, each in zip(words, owner, strict=True) if each == mark]
    for number, (sort, which) in enumerate(luck.random((WORDS_ASKED, 2)).tolist()):
        if sort >= ABSENT:
            known = words if sort < ABSENT + ELSEWHERE else own
            asked[number] = known[int(which * len(known))]
    return asked


def _owner(asked: Sequence[int], words: Sequence[int], owner: Sequence[int], none: int) -> int:
    """The place of the tool that has most of some words; `none` if no tool has any, `IGNORED` if several have most."""
    found = Counter(mark for mark, each in set(zip(owner, words, strict=True)) for word in asked if each == word)
    best = [mark for mark, count in found.items() if count == max(found.values())]
    return best[0] if len(best) == 1 else IGNORED if best else none
