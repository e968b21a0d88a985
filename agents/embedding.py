"""Query embeddings without a model: hashed words and character trigrams, the same in every process."""

from __future__ import annotations

import re
import zlib
from functools import lru_cache

import numpy as np
import numpy.typing as npt

DIMENSIONS = 256
_WORDS = re.compile(r"[a-z0-9]+")
_COMMON = frozenset((
    "a", "also", "am", "an", "and", "are", "as", "at", "be", "by", "can", "could", "do", "find", "for", "from", "get",
    "give", "i", "in", "is", "it", "know", "let", "like", "look", "me", "my", "name", "need", "of", "on", "or", "out",
    "please", "some", "tell", "that", "the", "then", "this", "to", "up", "use", "using", "want", "what", "which", "who",
    "with", "would", "you", "your",
))  # fmt: skip


@lru_cache(maxsize=4096)
def embed(text: str) -> npt.NDArray[np.float64]:
    """A unit vector, shape (DIMENSIONS,); similar wording, similar vectors. An empty text is the zero vector.

    Words count in full, their trigrams a little, so that inflections and names alike stay near each other.
    """
    vector = np.zeros(DIMENSIONS)
    for word in _WORDS.findall(text.casefold()):
        if word in _COMMON:
            continue
        _add(vector, word, 1.0)
        padded = f"<{word}>"
        for start in range(len(padded) - 2):
            _add(vector, padded[start : start + 3], 0.3)
    length = float(np.sqrt(vector @ vector))
    if length > 0:
        vector /= length
    vector.setflags(write=False)
    return vector


def _add(vector: npt.NDArray[np.float64], piece: str, weight: float) -> None:
    code = zlib.crc32(piece.encode())
    # one bit decides the sign, so that unrelated texts are near zero on average
    vector[(code >> 1) % DIMENSIONS] += weight if code & 1 else -weight
