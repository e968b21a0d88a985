"""What an agent remembers of past queries: which tools they used, and whether that helped."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ...simulators.decision.embedding import TextEmbedding
from ...simulators.errors import DataError
from .plan import BtpSettings, expected_value, frequency_cap


@dataclass(frozen=True, slots=True)
class PastQuery:
    """One query and the uses of tools in it.

    Attributes:
        query: its text.
        uses: for each tool, in the order of its uses, whether each helped.
        test: it is a test query; its uses never make a tool's value.
    """

    query: str
    uses: Mapping[str, tuple[bool, ...]]
    test: bool = False

    def to_json(self) -> str:
        uses = {name: [int(flag) for flag in flags] for name, flags in self.uses.items()}
        return json.dumps({"query": self.query, "uses": uses, "test": self.test}, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class ToolRecord:
    """A tool's past, as arrays over the queries that used it.

    Attributes:
        embeddings: of those queries, shape (queries, dimensions).
        flags: whether each use helped, per query.
        test: whether each is a test query, shape (queries,).
    """

    embeddings: npt.NDArray[np.float64]
    flags: tuple[tuple[bool, ...], ...]
    test: tuple[bool, ...]


@dataclass
class Experience:
    """Past queries, by the tools they used."""

    queries: list[PastQuery] = field(default_factory=list)
    _records: dict[str, ToolRecord] | None = field(default=None, repr=False, compare=False)
    _embedding: TextEmbedding = field(default_factory=TextEmbedding, repr=False, compare=False)
    _last: tuple[str, npt.NDArray[np.float64]] | None = field(default=None, repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.queries)

    def add(self, query: PastQuery) -> None:
        self.queries.append(query)
        self._records = self._last = None

    @property
    def tools(self) -> list[str]:
        """Names of the tools that were used, sorted."""
        return sorted(self._by_tool())

    def record(self, tool: str) -> ToolRecord | None:
        """A tool's past, or None where it has none."""
        return self._by_tool().get(tool)

    def estimate(self, query: str, tool: str, settings: BtpSettings) -> tuple[float, int]:
        """A tool's expected value and frequency cap for a query."""
        record = self.record(tool)
        if record is None:
            value = expected_value((), (), settings)
            return value, frequency_cap((), (), value, settings)
        similarities = (record.embeddings @ self._embed(query)).tolist()
        near: list[float] = []
        helpful: list[float] = []
        for similarity, flags, test in zip(similarities, record.flags, record.test, strict=True):
            if not test:
                near += [similarity] * len(flags)
                helpful += flags
        value = expected_value(near, helpful, settings)
        kept = [i for i, test in enumerate(record.test) if settings.count_test_queries or not test]
        counts = [len(record.flags[i]) for i in kept]
        helped = [float(any(record.flags[i])) for i in kept]
        return value, frequency_cap([similarities[i] for i in kept], counts, value, settings, helped)

    def _embed(self, query: str) -> npt.NDArray[np.float64]:
        """A query as a vector; the last one is kept, for an episode asks for every tool of one query."""
        if self._last is None or self._last[0] != query:
            self._last = query, self._embedding([query])[0]
        return self._last[1]

    def _by_tool(self) -> dict[str, ToolRecord]:
        if self._records is None:
            self._embedding = TextEmbedding(past.query for past in self.queries)
            vectors = self._embedding([past.query for past in self.queries])
            rows: dict[str, list[tuple[npt.NDArray[np.float64], tuple[bool, ...], bool]]] = {}
            for past, vector in zip(self.queries, vectors, strict=True):
                for name, flags in past.uses.items():
                    rows.setdefault(name, []).append((vector, flags, past.test))
            self._records = {
                name: ToolRecord(np.stack([r[0] for r in found]), tuple(r[1] for r in found), tuple(r[2] for r in found))
                for name, found in rows.items()
            }
        return self._records

    # -- files -----------------------------------------------------------------------------------------------------------

    def to_jsonl(self) -> str:
        """One line a query."""
        return "".join(past.to_json() + "\n" for past in self.queries)

    @classmethod
    def from_jsonl(cls, text: str, source: object = "experience") -> Experience:
        """Read what `to_jsonl` wrote.

        Raises:
            DataError: a line is no such record; names the line.
        """
        return cls([_read(line, source, number) for number, line in enumerate(text.splitlines(), 1) if line.strip()])

    @classmethod
    def load(cls, path: str | Path) -> Experience:
        """Read a file.

        Raises:
            DataError: it cannot be read, or a line is no record.
        """
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(path, f"cannot be read as experience: {error}") from error
        return cls.from_jsonl(text, path)


def _read(line: str, source: object, number: int) -> PastQuery:
    place = f"line {number}"
    try:
        document = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(source, "is no JSON; the file may be cut off", place) from error
    if not isinstance(document, dict) or not isinstance(document.get("query"), str):
        raise DataError(source, "expected an object with a query", place)
    uses, test = document.get("uses"), document.get("test", False)
    if not isinstance(uses, dict) or not isinstance(test, bool):
        raise DataError(source, "expected uses as an object and test as true or false", place)
    for name, flags in uses.items():
        if not isinstance(flags, list) or not flags or any(flag not in (0, 1) for flag in flags):
            raise DataError(source, f"uses of {name!r}: expected a list of 0 and 1, got {str(flags)[:60]}", place)
    return PastQuery(document["query"], {name: tuple(map(bool, flags)) for name, flags in uses.items()}, test)
