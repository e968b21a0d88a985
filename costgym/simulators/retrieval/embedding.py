"""Text embeddings: words hashed into a vector, weighted by their inverse document frequency.

They need no model and no download, and the same text gives the same vector in every process. They serve to find tools by the
words of their documentation, to cluster tools, and to find similar queries.
"""

import math
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain

import numpy as np
from numpy.typing import NDArray

_WORD = re.compile(r"[^\W_]+")
Vectors = NDArray[np.float64]


@lru_cache(maxsize=4096)
def _word(token: str) -> str:
    return token[:-1] if len(token) > 3 and token.endswith("s") else token


def content_words(text: str) -> list[str]:
    """The words of a text in order, in lower case, with plurals cut to their stem. Underscores separate words."""
    return [_word(token) for token in _WORD.findall(text.casefold())]


class TextEmbedding:
    """Hashed words, weighed by inverse document frequency (tf-idf with the hashing trick).

    Args:
        corpus: Texts, or their `content_words`, that tell how common each word is; without any, all words weigh the same.
        size: Length of a vector. Two words share a place with a chance of 1 / size.

    >>> embed = TextEmbedding(["the price of a book", "the weather in a city"])
    >>> query, book, city = embed(["the price of that book", "a book's price", "weather in the city"])
    >>> bool(query @ book > query @ city)
    True
    """

    def __init__(self, corpus: Iterable[str | Sequence[str]] = (), size: int = 512) -> None:
        words = [dict.fromkeys(content_words(text) if isinstance(text, str) else text) for text in corpus]
        seen, documents = Counter(chain.from_iterable(words)), len(words)
        self.size = size
        self._weights = {word: math.log((1 + documents) / (1 + count)) + 1.0 for word, count in seen.items()}
        self._rare = math.log(1 + documents) + 1.0
        self._entries: dict[str, tuple[int, float]] = {}

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Embed texts as unit vectors, shape (texts, size). A text without words is all zeros."""
        vectors = np.zeros((len(texts), self.size))
        for row, text in zip(vectors, texts, strict=True):
            for word in content_words(text):
                number, weight = self._entry(word)
                row[number] += weight
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        np.divide(vectors, lengths, out=vectors, where=lengths > 0)
        return vectors

    def sparse(self, texts: Iterable[Sequence[str]]) -> tuple[NDArray[np.intp], NDArray[np.intp], Vectors]:
        """Embed texts, given by their `content_words`: rows, columns and values of the entries that are not zero, by row."""
        rows: list[int] = []
        columns: list[int] = []
        values: list[float] = []
        for number, words in enumerate(texts):
            row: dict[int, float] = {}
            for word in words:
                index, weight = self._entry(word)
                row[index] = row.get(index, 0.0) + weight
            length = math.sqrt(sum([value * value for value in row.values()]))
            if length > 0.0:
                rows += [number] * len(row)
                columns += row
                values += [value / length for value in row.values()]
        return np.array(rows, np.intp), np.array(columns, np.intp), np.array(values, np.float64)

    def _entry(self, word: str) -> tuple[int, float]:
        row = self._entries.get(word)
        if row is None:
            code = zlib.crc32(word.encode())
            sign = 1.0 if code & 0x80000000 else -1.0
            row = self._entries[word] = (code % self.size, sign * self._weights.get(word, self._rare))
        return row


def k_means(points: Vectors, clusters: int, seed: int = 0, restarts: int = 4, rounds: int = 50) -> NDArray[np.int64]:
    """The cluster (points,) of each point by Lloyd's algorithm from k-means++ centres; the best of several starts counts.

    It is written in NumPy so that the core installation can sample tools by cluster, and so that threads cannot change
    the result. A cluster that runs empty takes the point that lies worst.
    """
    count = len(points)
    clusters = min(clusters, count)
    best, best_spread = np.zeros(count, np.int64), math.inf
    for start in range(restarts):
        generator = np.random.Generator(np.random.Philox(key=[seed, start]))
        centres = _spread_out(points, clusters, generator)
        labels = np.full(count, -1, np.int64)
        for _ in range(rounds):
            distances = squared_distances(points, centres)
            moved = distances.argmin(axis=1)
            nearest = distances[np.arange(count), moved]
            # an empty cluster takes the point that lies worst, unless that would empty another one
            for empty in np.flatnonzero(np.bincount(moved, minlength=clusters) == 0):
                alone = np.bincount(moved, minlength=clusters)[moved] == 1
                worst = int(np.where(alone, -1.0, nearest).argmax())
                moved[worst], nearest[worst] = empty, 0.0
            if np.array_equal(moved, labels):
                break
            labels = moved
            centres = centres_of(points, labels, clusters)
        spread = float(((points - centres[labels]) ** 2).sum())
        if spread < best_spread:
            best, best_spread = labels, spread
    return best


def squared_distances(points: Vectors, centres: Vectors) -> Vectors:
    """Squared distance of every point to every centre, shape (points, centres)."""
    squares: Vectors = (points**2).sum(axis=1)[:, None] - 2.0 * points @ centres.T + (centres**2).sum(axis=1)[None, :]
    # rounded, so that the order of a processor's additions cannot decide a tie
    return np.maximum(squares.round(9), 0.0)


def centres_of(points: Vectors, labels: NDArray[np.int64], clusters: int) -> Vectors:
    """Means of the clusters, shape (clusters, features)."""
    sums = np.zeros((clusters, points.shape[1]))
    np.add.at(sums, labels, points)
    sizes = np.bincount(labels, minlength=clusters)
    return sums / np.maximum(sizes, 1)[:, None]


def _spread_out(points: Vectors, clusters: int, generator: np.random.Generator) -> Vectors:
    """Choose centres by k-means++: each next one is a point drawn by its squared distance to the nearest centre so far."""
    chosen = [int(generator.integers(len(points)))]
    nearest = ((points - points[chosen[0]]) ** 2).sum(axis=1)
    while len(chosen) < clusters:
        edges = np.cumsum(nearest)
        if edges[-1] <= 0.0:
            chosen.append(next(i for i in range(len(points)) if i not in chosen))
        else:
            chosen.append(min(int(np.searchsorted(edges, generator.random() * edges[-1], side="right")), len(points) - 1))
        nearest = np.minimum(nearest, ((points - points[chosen[-1]]) ** 2).sum(axis=1))
    return points[chosen].copy()
