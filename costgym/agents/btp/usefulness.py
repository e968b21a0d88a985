"""Judge from its text alone whether a function's result helped."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from costgym.simulators import __version__, same_world
from costgym.simulators.errors import DataError
from costgym.simulators.files import decode_json, read_text
from costgym.simulators.tasks import normalise


class Usefulness(Protocol):
    """Judges results; a trained classifier may stand in for the rules."""

    def helpful(self, query: str, name: str, arguments: Mapping[str, Any], text: str) -> bool:
        """Return whether a call's result helps with a query."""
        ...


class Observed(NamedTuple):
    """The parts of a call that a trained judge reads."""

    text: str  # the result
    query: str  # what the user asked
    arguments: Mapping[str, Any]  # arguments of the call
    document: str = ""  # name and description of the tool, or "" where it is not known


class RuleBased:
    """An error, an empty answer or an answer about something else does not help; anything else does.

    An answer is about something else if it repeats an argument's name with another value.
    """

    def helpful(self, query: str, name: str, arguments: Mapping[str, Any], text: str) -> bool:
        document = _read(text)
        if not document:
            return document is not None
        requested = {key_of(name): normalise(value) for name, value in arguments.items()}
        return all(value == requested[key] for key, value in document if key in requested)


@lru_cache(maxsize=4096)
def _read(text: str) -> tuple[tuple[str, str], ...] | None:
    """Return the names and plain values in a result, as they are compared; None for a result that tells nothing."""
    stripped = text.strip()
    if not stripped:
        return None
    try:
        document = json.loads(stripped)
    except (ValueError, RecursionError):
        # cut off, or plain words
        return None if stripped.startswith('{"error"') else ()
    if document in ({}, [], "", None):
        return None
    if isinstance(document, dict) and document.get("error"):
        return None
    return tuple([(key, normalise(value)) for key, value in fields_of(document)])


_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@lru_cache(maxsize=4096)
def key_of(name: str) -> str:
    """Return a name in one spelling: invoiceId and invoice-id are invoice_id."""
    return _CAMEL.sub("_", name).casefold().replace("-", "_")


def fields_of(document: Any, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield the names and plain values in a JSON document, to a sensible depth."""
    if depth > 8:
        return
    if isinstance(document, dict):
        for name, value in document.items():
            if isinstance(value, dict | list):
                yield from fields_of(value, depth + 1)
            else:
                yield key_of(str(name)), value
    elif isinstance(document, list):
        for value in document[:20]:
            yield from fields_of(value, depth + 1)


FORMAT = "costgym.usefulness/1"
FILE = "usefulness.json"
LARGEST_FILE = 64 * 2**20
MOST_CHARACTERS = 8000  # most characters read of each part, about as much as the published classifier's 2,048 tokens hold
_WORD = re.compile(r"[^\W\d_]+")
NUMBERS = (
    "bias",
    "length",
    "error_word",
    "is_json",
    "nothing",
    "fields",
    "repeated",
    "contradicted",
    "about_query",
    "fits_query",
)
"""Numerical inputs beside the words; see `numbers_of`."""


def words_of(observed: Observed) -> list[str]:
    """Return the words of the four parts, each marked with its part."""
    arguments = " ".join(map(str, observed.arguments))
    parts = {"t": observed.text, "q": observed.query, "a": arguments, "d": observed.document}
    return [f"{mark}:{word}" for mark, part in parts.items() for word in _plain(part)]


def numbers_of(observed: Observed) -> list[float]:
    """Measure how the parts fit together: one number for each of `NUMBERS`, about between 0 and 1.

    Arguments count as repeated where the result has a field of that name with that value, as contradicted where the value is
    another one.
    """
    text = observed.text.strip()
    try:
        document: Any = json.loads(text)
        is_json = True
    except (ValueError, RecursionError):
        document, is_json = None, False
    fields = list(fields_of(document))[:200] if is_json else []
    requested = {key_of(name): normalise(value) for name, value in observed.arguments.items()}
    met = [(normalise(value), requested[key]) for key, value in fields if key in requested]
    size = max(1, len(requested))
    answer_words, query, document_words = set(_plain(text)), set(_plain(observed.query)), set(_plain(observed.document))
    return [
        1.0,
        min(1.0, math.log1p(len(text)) / 8.0),
        float(
            bool(answer_words & {"error", "errors", "failed", "failure", "unavailable", "denied", "invalid", "unauthorized"})
        ),
        float(is_json),
        float(not text or document in ({}, [], "") or (is_json and document is None)),
        min(1.0, len(fields) / 8.0),
        min(1.0, sum(a == b for a, b in met) / size),
        min(1.0, sum(a != b for a, b in met) / size),
        len(answer_words & query) / max(1, len(answer_words)),
        len(document_words & query) / max(1, len(query)),
    ]


def _plain(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text[:MOST_CHARACTERS])]


@dataclass(frozen=True)
class WordModel:
    """A fitted logistic regression over words and numbers."""

    vocabulary: tuple[str, ...]  # the words it knows
    rarity: npt.NDArray[np.float64]  # inverse document frequency of each, shape (words,)
    weights: npt.NDArray[np.float64]  # weights of the words and then of the numbers, shape (words + numbers,)
    threshold: float = 0.5  # least probability that counts as help

    @cached_property
    def _columns(self) -> dict[str, int]:
        return {word: index for index, word in enumerate(self.vocabulary)}

    @classmethod
    def unfitted(cls, observed: Sequence[Observed], least: int = 3, most: int = 4000) -> "WordModel":
        """Return the words that occur in at least `least` of the examples, the `most` frequent; all weights 0."""
        counts: Counter[str] = Counter()
        for observation in observed:
            counts.update(sorted(set(words_of(observation))))
        frequent = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:most]
        vocabulary = sorted(word for word, count in frequent if count >= least)
        rarity = np.array([math.log((1 + len(observed)) / (1 + counts[word])) + 1.0 for word in vocabulary])
        return cls(tuple(vocabulary), rarity, np.zeros(len(vocabulary) + len(NUMBERS)))

    def features(self, observed: Sequence[Observed]) -> npt.NDArray[np.float32]:
        """Return one row for each example, shape (examples, words + numbers): unit-length TF-IDF, and the numbers behind it."""
        features = np.zeros((len(observed), len(self.vocabulary) + len(NUMBERS)), np.float32)
        for row, observation in zip(features, observed, strict=True):
            for word, count in Counter(words_of(observation)).items():
                if (column := self._columns.get(word)) is not None:
                    row[column] = (1.0 + math.log(count)) * self.rarity[column]
            length = float(np.linalg.norm(row))
            row /= length or 1.0
            row[len(self.vocabulary) :] = numbers_of(observation)
        return features

    def probabilities(self, observed: Sequence[Observed]) -> npt.NDArray[np.float64]:
        """Return the probability that each result helps, shape (examples,)."""
        scores = self.features(observed).astype(np.float64) @ self.weights
        chances: npt.NDArray[np.float64] = 1.0 / (1.0 + np.exp(-np.clip(scores, -500.0, 500.0)))
        return chances


class LearntUsefulness:
    """Judges results by a fitted model over what BTP's classifier reads: result, query, arguments, and the tool's document.

    Words of each weigh by TF-IDF; beside them stand a few numbers about how the four fit together, such as the share of the
    arguments that the result repeats. On both stands a logistic regression. To judge takes NumPy alone, and the file is plain
    JSON: weights can be read by eye, and an untrusted classifier runs no code. Of tools outside `documents` the name alone is
    read.

    Source: BTP (arXiv 2402.15960), Section 2.2 and the order of the published code's inputs; features and model are ours.
    """

    def __init__(self, model: WordModel, documents: Mapping[str, str] | None = None) -> None:
        self.model, self.documents = model, dict(documents or {})

    def probability(self, query: str, name: str, arguments: Mapping[str, Any], text: str) -> float:
        """Return the probability that a call's result helps with a query."""
        return float(self.model.probabilities([Observed(text, query, arguments, self.documents.get(name, name))])[0])

    def helpful(self, query: str, name: str, arguments: Mapping[str, Any], text: str) -> bool:
        """See `Usefulness`."""
        return self.probability(query, name, arguments, text) >= self.model.threshold

    # -- files -----------------------------------------------------------------------------------------------------------

    def to_json(self, about: Mapping[str, Any] | None = None) -> str:
        """Return the classifier as text; `about` is whatever else to say of it, such as its metrics."""
        document = {
            "format": FORMAT,
            "version": __version__,
            **(about or {}),
            "threshold": self.model.threshold,
            "numbers": dict(zip(NUMBERS, self.model.weights[len(self.model.vocabulary) :].tolist(), strict=True)),
            "words": {
                word: [float(rarity), float(weight)]
                for word, rarity, weight in zip(self.model.vocabulary, self.model.rarity, self.model.weights, strict=False)
            },
            "documents": self.documents,
        }
        return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def load_usefulness(path: str | Path) -> LearntUsefulness:
    """The classifier of a `costgym train btp` run, its folder or file; raises DataError if it is no such file."""
    file = Path(path) / FILE if Path(path).is_dir() else Path(path)
    try:
        if file.stat().st_size > LARGEST_FILE:
            raise DataError(file, f"is larger than {LARGEST_FILE} bytes, more than any classifier of costgym")
        document = decode_json(read_text(file, LARGEST_FILE))
    except OSError as error:
        raise DataError(file, f"cannot be read ({error.strerror}); expected a run of `costgym train btp`") from error
    except (ValueError, RecursionError) as error:
        raise DataError(file, "is not valid JSON; train the classifier again") from error
    actual = document.get("format") if isinstance(document, dict) else type(document).__name__
    if actual != FORMAT:
        raise DataError(file, f"expected format {FORMAT!r}, got {actual!r}", "format")
    version = str(document.get("version"))
    if not same_world(version):
        raise DataError(file, f"was written by costgym {version}, this is {__version__}; train again", "version")
    words, numbers, documents = document.get("words"), document.get("numbers"), document.get("documents")
    if not isinstance(words, dict) or not all(isinstance(pair, list) and len(pair) == 2 for pair in words.values()):
        raise DataError(file, "expected two numbers for each word", "words")
    if not isinstance(numbers, dict) or tuple(numbers) != NUMBERS:
        raise DataError(file, f"expected exactly {', '.join(NUMBERS)}", "numbers")
    if not isinstance(documents, dict) or not all(isinstance(text, str) for text in documents.values()):
        raise DataError(file, "expected a text for each tool", "documents")
    try:
        values = np.array([*words.values(), *([0.0, number] for number in numbers.values())], np.float64).reshape(-1, 2)
        threshold = float(document["threshold"])
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(file, "expected numbers for weights and threshold", "words") from error
    if not np.isfinite(values).all() or not 0.0 <= threshold <= 1.0:
        raise DataError(file, "expected finite weights and a threshold from 0 to 1", "words")
    return LearntUsefulness(WordModel(tuple(words), values[: len(words), 0].copy(), values[:, 1].copy(), threshold), documents)
