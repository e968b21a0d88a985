"""Retrieval pre-training of a small DEER model, before it is trained on decisions.

A pre-trained language model can match a word of a query to the same word in a tool description. A model with random weights
cannot, and the single label of a decision is too weak a signal to learn it. The model is therefore first trained on synthetic
rows: several tools made of random words, followed by query words. For each query word the label is the tool that contains it,
or none; after the last word it is the tool that contains most of them. The rows do not depend on the scenario's tools and
queries and are never repeated, so they cannot be memorised. Pre-training ends when the accuracy reaches a threshold; it rises
abruptly, at a different step for each seed.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from ....agents.deer.language_model import IGNORED
from ....agents.deer.settings import DeerSettings
from ....agents.deer.writing import CONTROL, DECIDE, END, NONE, QUERY, TOOLS, place
from ....simulators.draws import stable_generator

WORDS_ASKED = 8
"""Number of query words per row."""
NOTHING = 0.2
"""Probability that no tool of a row contains any of its query words."""
ABSENT, ELSEWHERE = 0.3, 0.1
"""In other rows, the probabilities of drawing a query word from all words and from any tool; otherwise from the target tool."""
MAX_TOOL_WORDS = 5
LEARNT = 0.96
"""Accuracy over the last `RECENT` steps, on rows not seen before, at which pre-training ends."""
RECENT = 20


class TokenRow(NamedTuple):
    """A training row: tokens and the label of each; `IGNORED` marks tokens without a loss."""

    input_ids: list[int]
    labels: list[int]


def first_word(tokenizer: Any, slots: int) -> int:
    """Return the id of the first ordinary word, which follows the control tokens and the candidates' position tokens."""
    return 1 + max(int(tokenizer.convert_tokens_to_ids(token)) for token in (*CONTROL, *map(place, range(slots))))


def retrieval_rows(steps: int, tokenizer: Any, slots: int, settings: DeerSettings) -> list[TokenRow]:
    """Generate the retrieval rows of a number of steps, in order; the rows of one step have the same length.

    The answers appear as labels only, not as input tokens, so the query words form a sequence as in a real query. The label
    after the last word is the tool that contains most of them.
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
    """Draw query words: some from one tool, some from any tool, and some from all words."""
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
    """Return the position of the tool that contains most of the words; `none` if no tool contains any, `IGNORED` on a tie."""
    found = Counter(mark for mark, each in set(zip(owner, words, strict=True)) for word in asked if each == word)
    best = [mark for mark, count in found.items() if count == max(found.values())]
    return best[0] if len(best) == 1 else IGNORED if best else none
