"""The words of one document: which of its identifiers' parts are words, several words in one, or abbreviations.

Descriptions are prose, and prose has spaces: `appointmenttype` is an appointment type since the document writes both words
elsewhere, and `crl` is a CRL where its sentences write it in capitals.
"""

import re
from collections import Counter
from collections.abc import Iterator

from costgym.simulators.forge.readers.operations import Api
from costgym.simulators.forge.values import NAMED
from costgym.simulators.forge.words import CAPITALS, JOINED, LONGEST_WORD, lexicon, mapped, plural, singular, split

MOST_PROSE = 400  # characters that are read of one description
KEPT_WHOLE = 10  # longest word that stays whole where the prose has it: "endpoint", "workspace"
SHORT = 4  # words up to this length are abbreviations unless a list or the prose has them
LITTLE = 500  # words of prose below which a document is no dictionary: a word that it lacks may be one all the same
_TOKEN = re.compile(r"(?<![\w./{$-])[A-Za-z]+(?![\w/}(])")
_BASE = frozenset().union(
    *map(lexicon, ("short", "amounts", "counts", "numeric", "identifies", "places", "singles", "parts")), NAMED
)
# ends of words that are words themselves: a relationship is no ship
_TAILS = frozenset(("ship", "action", "board", "able", "less", "ness", "port"))
_FULL, _HYPHENATED = mapped("in full"), mapped("hyphenated")
_BASE |= {word for whole in _FULL.values() for word in whole.split("_")}


class Vocabulary:
    """The words that a document uses."""

    def __init__(self, api: Api) -> None:
        self._plain: Counter[str] = Counter()
        self._capitals: Counter[str] = Counter()
        self._parts: set[str] = set()
        for text in _prose(api):
            for token in _TOKEN.findall(text[:MOST_PROSE]):
                if token.isupper() and len(token) > 1:
                    self._capitals[token.lower()] += 1
                elif token[1:].islower():
                    self._plain[token.lower()] += 1
        for name in _identifiers(api):
            parts = split(name)
            if len(parts) > 1:
                self._parts |= {part for part in parts if len(part) > SHORT}
        self._little = self._plain.total() < LITTLE
        self._splits: dict[str, tuple[str, ...]] = {}

    def split(self, identifier: str) -> list[str]:
        """The words of an identifier in small letters, abbreviations in full."""
        parts = [_FULL.get(part, part) for word in split(identifier) for part in self._several(word)]
        return [word for part in parts for word in part.split("_")]

    def written(self, words: list[str]) -> str:
        """Words as the document's sentences write them, abbreviations in capitals; an ISO currency code is a currency."""
        words = (
            [*words[: -3 if words[:-2][-1:] == ["iso"] else -2], "currency"] if words[-2:] == ["currency", "code"] else words
        )
        text = " ".join(word.upper() if word in CAPITALS or self._is_abbreviation(word) else word for word in words)
        return next(
            (text.replace(two.replace("_", " "), one) for two, one in _HYPHENATED.items() if two in "_".join(words)), text
        )

    def readable(self, words: list[str]) -> bool:
        """Return whether a person would read these as words: no unknown abbreviation, and none that is several in one."""
        return bool(words) and len(set(words)) == len(words) and all(map(self._readable, words))

    def _readable(self, word: str) -> bool:
        if word in JOINED or word in CAPITALS or word in _BASE or self._is_abbreviation(word):
            return True
        if len(word) < 2 or not word.isalpha() or not set(word) & set("aeiouy"):
            return False
        if len(word) <= SHORT:
            return len(word) > 2 and word in self._plain
        if any(form in self._plain for form in (word, singular(word), plural(word))):
            return len(word) <= LONGEST_WORD + 5
        return len(word) <= LONGEST_WORD and (word in self._parts or self._little)

    def _is_abbreviation(self, word: str) -> bool:
        return 1 < len(word) <= SHORT + 1 and self._capitals[word] > self._plain[word] and word not in _BASE

    def _several(self, word: str) -> tuple[str, ...]:
        if word not in self._splits:
            self._splits[word] = self._apart(word)
        return self._splits[word]

    def _apart(self, word: str) -> tuple[str, ...]:
        whole = self._plain[word]
        if len(word) < 6 or word in _BASE or word in JOINED or (whole and len(word) <= KEPT_WHOLE):
            return (word,)
        best: tuple[str, ...] = ()
        for at in range(len(word) - 3, 2, -1):
            first, last = word[:at], word[at:]
            if self._part(first, whole) and self._part(last, whole) and last not in _TAILS:
                best = max(best, (first, last), key=lambda pair: min(map(len, pair), default=0))
        return best or (word,)

    def _part(self, word: str, whole: int) -> bool:
        """Return whether this is a word by itself, and no rarer than the one that it may be a part of."""
        if word in _BASE:
            return True
        return (len(word) >= SHORT and self._plain[word] > whole) or (word in self._parts and not whole)


def _prose(api: Api) -> Iterator[str]:
    for operation in api.operations:
        yield operation.summary
        yield operation.description
        for parameter in operation.parameters:
            yield parameter.description
        for field in operation.fields:
            yield str(field.schema.get("description", ""))


def _identifiers(api: Api) -> Iterator[str]:
    for operation in api.operations:
        yield operation.name
        yield from (parameter.name for parameter in operation.parameters)
        yield from (field.name for field in operation.fields)
