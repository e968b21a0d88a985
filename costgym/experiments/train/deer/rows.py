"""Tokenised training rows of DEER: of retrieval, on which a small model is trained first, and of decisions, with their order.

A pre-trained language model can match a word of a query to the same word in a tool description. A model with random weights
cannot, and the single label of a decision is too weak a signal to learn it. Such a model is therefore first trained on
synthetic rows: several tools made of random words, followed by query words. For each query word the label is the tool that
contains it, or none; after the last word it is the tool that contains most of them. The rows do not depend on the scenario's
tools and queries and are never repeated, so they cannot be memorised. Pre-training ends when the accuracy reaches a
threshold; it rises abruptly, at a different step for each seed.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from costgym.agents.deer.language_model import IGNORED
from costgym.agents.deer.settings import DeerSettings
from costgym.agents.deer.writing import CONTROL, DECIDE, END, NONE, QUERY, TOOLS, Writing, completion_ids, prompt_ids, slot
from costgym.simulators.decision.samples import Example
from costgym.simulators.draws import stable_generator

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
NO_SEARCH_FACTOR = 4
"""Sampling factor of samples without a tool relative to samples with one, because they give only one row instead of two."""
_CHUNK = 16


class TokenRow(NamedTuple):
    """A training row: tokens and the label of each; `IGNORED` marks tokens without a loss."""

    input_ids: list[int]
    labels: list[int]


def first_word(tokenizer: Any, slots: int) -> int:
    """Return the id of the first ordinary word, which follows the control tokens and the candidates' position tokens."""
    return 1 + int(max(tokenizer.convert_tokens_to_ids([*CONTROL, *map(slot, range(slots))])))


def retrieval_rows(steps: int, tokenizer: Any, slots: int, settings: DeerSettings) -> list[TokenRow]:
    """Generate the retrieval rows of a number of steps, in order; the rows of one step have the same length.

    The answers appear as labels only, not as input tokens, so the query words form a sequence as in a real query. The label
    after the last word is the tool that contains most of them.
    """
    if not steps:
        return []  # a published tokenizer has none of the control tokens
    luck = stable_generator(settings.seed, "deer look-up")
    first, most = first_word(tokenizer, slots), len(tokenizer)
    tools, query, decide, none, end = tokenizer.convert_tokens_to_ids([TOOLS, QUERY, DECIDE, NONE, END])
    marks = tokenizer.convert_tokens_to_ids([slot(index) for index in range(slots)])
    rows = []
    for _ in range(steps):
        lengths = luck.integers(1, MAX_TOOL_WORDS + 1, slots).tolist()
        owner = [mark for mark, length in zip(marks, lengths, strict=True) for _ in range(length)]
        starts = luck.integers(first, most, (settings.batch_size, len(owner)))
        for words in starts.tolist():
            query_words = _drawn(words, owner, marks, first, most, luck)
            answers = [_owner([word], words, owner, none) for word in query_words]
            prompt = [tools, *(token for pair in zip(owner, words, strict=True) for token in pair), query]
            labels = [IGNORED] * (len(prompt) + 1) + [*answers, _owner(query_words, words, owner, none)]
            rows.append(TokenRow([*prompt, *query_words, decide, end], labels))
    return rows


def _drawn(words: Sequence[int], owner: Sequence[int], marks: Sequence[int], first: int, most: int, luck: Any) -> list[int]:
    """Draw query words: some from one tool, some from any tool, and some from all words."""
    query: list[int] = luck.integers(first, most, WORDS_ASKED).tolist()
    if luck.random() < NOTHING:
        return query
    mark = marks[int(luck.integers(len(marks)))]
    of_mark = [word for word, one in zip(words, owner, strict=True) if one == mark]
    for number, (sort, which) in enumerate(luck.random((WORDS_ASKED, 2)).tolist()):
        if sort >= ABSENT:
            known = words if sort < ABSENT + ELSEWHERE else of_mark
            query[number] = known[int(which * len(known))]
    return query


def _owner(query: Sequence[int], words: Sequence[int], owner: Sequence[int], none: int) -> int:
    """Return the position of the tool that contains most of the words; `none` if no tool contains any, `IGNORED` on a tie."""
    owners = Counter(mark for mark, other in set(zip(owner, words, strict=True)) for word in query if other == word)
    best = [mark for mark, count in owners.items() if count == max(owners.values())]
    return best[0] if len(best) == 1 else IGNORED if best else none


def token_row(tokenizer: Any, prompt: str, completion: str) -> TokenRow:
    """Tokenise a prompt and its completion; only the completion's tokens are labelled."""
    read, learnt = prompt_ids(tokenizer, prompt), completion_ids(tokenizer, completion)
    return TokenRow([*read, *learnt], [*[IGNORED] * len(read), *learnt])


def rows_of(known: Sequence[Example], writing: Writing, tokenizer: Any, settings: DeerSettings) -> list[TokenRow]:
    """Convert the decisions of examples to training rows, in the shares of the kinds of rows that the settings say."""
    luck = stable_generator(settings.seed, "deer rows")
    rows = []
    for example in known:
        first, second = writing.rows(example)
        slots = len(example.candidates)
        share = settings.search_share * (1 if second is not None else NO_SEARCH_FACTOR)
        # a published model is trained on every decision: it needs few samples
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
    """Replace a fifth of the words of a first decision at random, so that unknown words do not indicate whether to search."""
    first = first_word(tokenizer, slots)
    prompt = [
        int(luck.integers(first, len(tokenizer))) if label == IGNORED and token >= first and luck.random() < 0.2 else token
        for token, label in zip(*row, strict=True)
    ]
    return TokenRow(prompt, row.labels)


def renamed(row: TokenRow, gold: int | None, slots: int, tokenizer: Any, luck: Any) -> TokenRow:
    """Replace some words of a call decision, every occurrence of a word by the same new word.

    There are only a few hundred tool descriptions, which a policy could memorise instead of comparing them with the query.
    Words shared by query and candidates stay shared. Words of the correct tool's description alone are kept: the query may
    contain a synonym.
    """
    control = set(tokenizer.convert_tokens_to_ids(list(CONTROL)))
    slots_by_token = {tokenizer.convert_tokens_to_ids(slot(index)): index for index in range(slots)}
    asks = tokenizer.convert_tokens_to_ids(QUERY)
    split = row.input_ids.index(asks)
    query = set(row.input_ids[split:]) - control - slots_by_token.keys()
    owners: dict[int, set[int]] = {}
    at = -1
    for token in row.input_ids[:split]:
        at = slots_by_token.get(token, at)
        if token not in control and token not in slots_by_token:
            owners.setdefault(token, set()).add(at)
    shared = [token for token in sorted(owners) if token in query]
    free = [token for token in sorted(owners) if token not in query and gold not in owners[token]]
    query_tokens = [token for token in sorted(query) if token not in owners] if shared or gold is None else []
    first = first_word(tokenizer, slots)
    others = {
        token: int(luck.integers(first, len(tokenizer)))
        for tokens, chance in ((shared, 0.6), (free, 0.4), (query_tokens, 0.15))
        for token in tokens
        if luck.random() < chance
    }
    prompt = [others.get(token, token) if label == IGNORED else token for token, label in zip(*row, strict=True)]
    return TokenRow(prompt, row.labels)


def learning_order(rows: Sequence[TokenRow], retrieval: int, settings: DeerSettings) -> list[int]:
    """The row indices of all decision steps, (steps * batch_size,), in batches of similar length in random order.

    Indices beyond `rows` refer to the `retrieval` rows, a multiple of the batch size, which keep their own order.
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
    """Yield batches without end; each pass takes every row once and repeats the first rows to fill the last batch."""
    while True:
        indices = luck.permutation(len(lengths)).tolist()
        # filled up to whole batches, which keeps the number of steps of a pass independent of the batches' contents
        indices += indices[: -len(indices) % batch]
        while len(indices) < batch:
            indices += indices[: batch - len(indices)]
        for start in range(0, len(indices), batch * _CHUNK):
            chunk = sorted(indices[start : start + batch * _CHUNK], key=lambda index: lengths[index])
            order = luck.permutation(len(chunk) // batch).tolist()
            for at in order:
                yield chunk[at * batch : (at + 1) * batch]
