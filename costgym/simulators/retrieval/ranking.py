"""Score the tools of a catalogue against a query, by words or by word embeddings. The same query gives the same order."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from costgym.simulators.errors import require
from costgym.simulators.retrieval.embedding import content_words
from costgym.simulators.tools import ToolText

Scores = NDArray[np.float64]
K1, B = 1.2, 0.75
"""Saturation of a word's count, and weight of a document's length. Source: Robertson and Zaragoza (2009), Section 3."""


def document_of(tool: ToolText) -> str:
    """All that a retriever knows of a tool."""
    return f"{tool.category} {tool.provider} {tool.title or tool.name} {tool.description}"


class Bm25:
    """Okapi BM25 over documents.

    Args:
        documents: Texts; case, plurals and underscores do not matter.

    >>> Bm25(["the price of a book", "the weather in a city"]).scores("weather today").argmax().item()
    1
    """

    def __init__(self, documents: Sequence[str]) -> None:
        counts = [Counter(content_words(text)) for text in documents]
        lengths = [sum(count.values()) for count in counts]
        mean = sum(lengths) / max(1, len(lengths)) or 1.0
        postings: dict[str, list[int]] = {}
        for number, count in enumerate(counts):
            for word in count:
                postings.setdefault(word, []).append(number)
        self._size = len(counts)
        # an inverted index: a query touches only the documents that share a word with it
        self._postings: dict[str, tuple[NDArray[np.intp], Scores]] = {}
        for word, numbers in postings.items():
            rarity = math.log(1.0 + (self._size - len(numbers) + 0.5) / (len(numbers) + 0.5))
            weights = [
                rarity * counts[n][word] * (K1 + 1.0) / (counts[n][word] + K1 * (1.0 - B + B * lengths[n] / mean))
                for n in numbers
            ]
            self._postings[word] = np.array(numbers, np.intp), np.array(weights)

    def scores(self, query: str) -> Scores:
        """A score for each document, the higher the closer; shape (documents,)."""
        total = np.zeros(self._size)
        for word in content_words(query):
            if word in self._postings:
                numbers, weights = self._postings[word]
                total[numbers] += weights
        return total.round(6)  # so that a library's last digit cannot decide a tie


class Cosine:
    """Cosine similarity of the unit vectors that an embedding makes of texts."""

    def __init__(self, documents: Sequence[str], embed: Callable[[Sequence[str]], Scores]) -> None:
        self._embed = embed
        self._vectors = self._embed([" ".join(text.replace("_", " ").split()) for text in documents])

    def scores(self, query: str) -> Scores:
        """A score for each document, the higher the closer; shape (documents,)."""
        scores: Scores = (self._vectors @ self._embed([query])[0]).round(5)
        return scores


def word_embedding() -> Callable[[Sequence[str]], Scores]:
    """WordLlama's static embeddings (256 numbers a token), from the package `wordllama`; raises MissingExtra."""
    package = require("wordllama", "retrieval")
    # weights and tokenizer lie in the package, in the places of a download cache: nothing is downloaded
    model = package.WordLlama.load(cache_dir=Path(str(package.__file__)).parent, disable_download=True)
    return lambda texts: np.asarray(model.embed(list(texts), norm=True), np.float64)


def best_first(scores: Scores) -> list[int]:
    """Numbers of the documents, the closest first, equal ones in the order of the catalogue."""
    order: list[int] = np.argsort(-scores, kind="stable").tolist()
    return order
