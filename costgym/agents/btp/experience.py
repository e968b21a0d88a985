"""An agent's memory of past queries: the tools they used, and whether each use helped."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from costgym.agents.btp.plan import BtpSettings, Similarity, cap_of, expected_value, frequency_cap, value_of, weights_of
from costgym.simulators.errors import DataError
from costgym.simulators.files import decode_json, read_packed
from costgym.simulators.retrieval.embedding import TextEmbedding, Vectors, content_words
from costgym.simulators.retrieval.sentences import sentence_embedding


@dataclass(frozen=True, slots=True)
class PastQuery:
    """A past query and the uses of tools in it."""

    query: str  # its text
    uses: Mapping[str, tuple[bool, ...]]  # for each tool, in the order of its uses, whether each helped
    test: bool = False  # it is a test query; its uses never make a tool's value

    def to_json(self) -> str:
        uses = {name: [int(flag) for flag in flags] for name, flags in self.uses.items()}
        return json.dumps({"query": self.query, "uses": uses, "test": self.test}, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class _Record:
    """A tool's past, as arrays over the queries that used it and over its uses."""

    # rows, columns, values: entries of the embeddings of those queries that are not zero, by row
    rows: npt.NDArray[np.intp]
    columns: npt.NDArray[np.intp]
    values: npt.NDArray[np.float64]
    counts: npt.NDArray[np.float64]  # uses in each query, shape (queries,)
    helped: npt.NDArray[np.float64]  # 1 where some use in the query helped, shape (queries,)
    test: npt.NDArray[np.bool_]  # whether each is a test query, shape (queries,)
    use_queries: npt.NDArray[np.intp]  # row of the query of each use, test queries left out, shape (uses,)
    use_helped: npt.NDArray[np.float64]  # 1 where that use helped, shape (uses,)

    def similarities(self, query: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Cosine of an embedded query to each query that used the tool, shape (queries,)."""
        # summed in the order of the rows, so that no library's order of additions counts
        products = self.values * query[self.columns]
        return np.asarray(np.bincount(self.rows, products, len(self.counts)), np.float64)

    def estimate(self, query: npt.NDArray[np.float64], settings: BtpSettings) -> tuple[float, int]:
        """Return the tool's expected value and frequency cap for an embedded query."""
        near = weights_of(self.similarities(query), settings)
        value = value_of(near[self.use_queries], self.use_helped, settings)
        counts, helped = self.counts, self.helped
        if not settings.count_test_queries and self.test.any():
            near, counts, helped = near[~self.test], counts[~self.test], helped[~self.test]
        return value, cap_of(near, counts, value, settings, helped)


class _Index:
    """The data of the estimates: the embedding of queries, and the tools' records as far as they were asked for."""

    def __init__(self, queries: Sequence[PastQuery], similarity: Similarity) -> None:
        self.embedding: Callable[[Sequence[str]], Vectors]
        if similarity == "minilm":
            self.embedding = sentence_embedding()
            vectors = self.embedding([past.query for past in queries])
            rows, self._columns = np.nonzero(vectors)
            self._values = vectors[rows, self._columns]
        else:
            words = [content_words(past.query) for past in queries]
            self.embedding = embedding = TextEmbedding(words)
            rows, self._columns, self._values = embedding.sparse(words)
        self._begins = np.searchsorted(rows, np.arange(len(queries) + 1))
        self.uses: dict[str, list[tuple[int, tuple[bool, ...], bool]]] = {}
        for number, past in enumerate(queries):
            for name, flags in past.uses.items():
                self.uses.setdefault(name, []).append((number, flags, past.test))
        self._records: dict[str, _Record] = {}

    def record(self, tool: str) -> _Record | None:
        """Return a tool's past, or None where it has none."""
        records = self._records.get(tool)
        if records is None and (uses := self.uses.get(tool)):
            records = self._records[tool] = self._record(uses)
        return records

    def _record(self, uses: Sequence[tuple[int, tuple[bool, ...], bool]]) -> _Record:
        queries = np.array([number for number, _, _ in uses], np.intp)
        # the sparse rows of these queries, cut out of the index's arrays in one gather instead of row by row
        begins, lengths = self._begins[queries], self._begins[queries + 1] - self._begins[queries]
        rows = np.repeat(np.arange(len(uses)), lengths)
        indices = np.arange(len(rows)) + np.repeat(begins - (np.cumsum(lengths) - lengths), lengths)
        learnt = [(row, flag) for row, (_, flags, test) in enumerate(uses) if not test for flag in flags]
        return _Record(
            rows,
            self._columns[indices],
            self._values[indices],
            np.array([len(flags) for _, flags, _ in uses], np.float64),
            np.array([any(flags) for _, flags, _ in uses], np.float64),
            np.array([test for _, _, test in uses], np.bool_),
            np.array([row for row, _ in learnt], np.intp),
            np.array([flag for _, flag in learnt], np.float64),
        )


@lru_cache(maxsize=64)
def _unseen(settings: BtpSettings) -> tuple[float, int]:
    value = expected_value((), (), settings)
    return value, frequency_cap((), (), value, settings)


@dataclass
class Experience:
    """Past queries, by the tools they used."""

    queries: list[PastQuery] = field(default_factory=list)
    _indices: dict[Similarity, _Index] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.queries)

    def add(self, query: PastQuery) -> None:
        self.queries.append(query)
        self._indices = {}

    @property
    def uses(self) -> int:
        """Number of past uses of all tools together."""
        return sum(len(flags) for past in self.queries for flags in past.uses.values())

    def estimates(self, query: str, tools: Sequence[str], settings: BtpSettings) -> list[tuple[float, int]]:
        """Return the expected value and the frequency cap of each of some tools for a query."""
        index, unseen = self._index(settings.similarity), _unseen(settings)
        if index.uses.keys().isdisjoint(tools):
            return [unseen] * len(tools)
        records = [index.record(tool) for tool in tools]
        embedded = index.embedding([query])[0]
        return [unseen if record is None else record.estimate(embedded, settings) for record in records]

    def _index(self, similarity: Similarity) -> _Index:
        if similarity not in self._indices:
            self._indices[similarity] = _Index(self.queries, similarity)
        return self._indices[similarity]

    # -- files -----------------------------------------------------------------------------------------------------------

    def to_jsonl(self) -> str:
        """Write one line for each query."""
        return "".join(past.to_json() + "\n" for past in self.queries)

    @classmethod
    def from_jsonl(cls, text: str, source: object = "experience") -> "Experience":
        """Read what `to_jsonl` wrote; raises DataError where a line is not a valid record; the error names the line."""
        queries, indices = _parse(text, source)
        experience = cls(list(queries))
        experience._indices = indices
        return experience

    @classmethod
    def load(cls, path: str | Path) -> "Experience":
        """Read a file of JSON lines (.xz is unpacked); raises DataError where it or a line cannot be read."""
        try:
            text = read_packed(Path(path)).decode()
        except UnicodeDecodeError as error:
            raise DataError(path, f"cannot be read as experience: {error}") from error
        return cls.from_jsonl(text, path)


@lru_cache(maxsize=2)
def _parse(text: str, source: object) -> tuple[tuple[PastQuery, ...], dict[Similarity, _Index]]:
    """The queries of a text, and the indices that all who read it share: to read a world's past takes a second."""
    lines = enumerate(text.splitlines(), 1)
    return tuple(_read(line, source, number) for number, line in lines if line.strip()), {}


def _read(line: str, source: object, number: int) -> PastQuery:
    location = f"line {number}"
    try:
        document = decode_json(line)
    except ValueError as error:
        raise DataError(source, "is not valid JSON; the file may be cut off", location) from error
    if not isinstance(document, dict) or not isinstance(document.get("query"), str):
        raise DataError(source, "expected an object with a query", location)
    uses, test = document.get("uses"), document.get("test", False)
    if not isinstance(uses, dict) or not isinstance(test, bool):
        raise DataError(source, "expected uses as an object and test as true or false", location)
    for name, flags in uses.items():
        if not isinstance(flags, list) or not flags or flags.count(0) + flags.count(1) < len(flags):
            raise DataError(source, f"uses of {name!r}: expected a list of 0 and 1, got {str(flags)[:60]}", location)
    return PastQuery(document["query"], {name: tuple(map(bool, flags)) for name, flags in uses.items()}, test)
