"""The records of a log that are read: those that `--where` chooses, without those that cannot be read, which are counted."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from costgym.experiments.play.call_logs.records import Record, first, read_records
from costgym.experiments.play.call_logs.spans import spans_of
from costgym.simulators.errors import DataError, require

AGENTPILE = "agentpile:"  # begins the name of a data set or file that the library agentpile reads
BAD_SHARE = 0.1  # largest share of records that may be unreadable
SHOWN = 5  # unreadable records that a report names, and values of a field that a message names
NOT_CHOSEN = "records that --where leaves out"


def records_of(path: Path) -> list[Record]:
    """The records of a file, or the trajectories of one of agentpile's data sets; raises DataError if they cannot be read."""
    name = str(path).removeprefix(AGENTPILE)
    if name == str(path):
        return read_records(path)
    library = require("agentpile", "logs")
    try:
        return [Record(f"trajectory {number}", run.record) for number, run in enumerate(library.load(name), 1)]
    except (library.AgentpileError, OSError, ValueError) as error:
        raise DataError(path, f"cannot be read: {error}") from error


class Selection:
    """Chooses the records of one file, and counts the others.

    Attributes:
        records: How many records there were, each span for itself.
        left_out: Records that were read and are not used, by reason.
        problems: Location and reason of each that cannot be read.
    """

    def __init__(self, path: Path, where: Mapping[str, str] | None = None) -> None:
        self._path, self._where = path, where or {}
        self.records = 0
        self.left_out: Counter[str] = Counter()
        self.problems: list[tuple[str, str]] = []
        self._seen: Counter[str] = Counter()  # values of the fields that `where` names

    def chosen(self, records: Iterable[Record]) -> Iterator[Record]:
        """The records, and the spans within them, that can be read and have the wanted values."""
        for record in records:
            spans = spans_of(record.value) if isinstance(record.value, dict) else None
            for value in [record.value] if spans is None else spans:
                self.records += 1
                if record.problem:
                    self.problems.append((record.location, record.problem))
                elif isinstance(value, dict | list) and not self._is_chosen(value):
                    self.left_out[NOT_CHOSEN] += 1
                else:
                    yield record._replace(value=value)

    def _is_chosen(self, record: Any) -> bool:
        for name, wanted in self._where.items():
            plain = name.rstrip("!")
            paths = (plain, f"attributes.{plain}", f"resource.attributes.{plain}", f"resource.{plain}", f"metadata.{plain}")
            value = first(record, paths) if isinstance(record, dict) else None
            text = str(value).lower() if isinstance(value, bool) else str(value)
            if len(self._seen) < 100:
                self._seen[f"{plain}={text:.40}" if value is not None else f"no {plain}"] += 1
            if (text == wanted) == name.endswith("!"):
                return False
        return True

    def check(self, used: int) -> None:
        """Raise DataError where too many records cannot be read, or all that could be used, or `--where` leaves all out."""
        count = len(self.problems)
        too_many = count > BAD_SHARE * max(self.records, used)
        if not used and not too_many and self._where and set(self.left_out) == {NOT_CHOSEN}:
            values = ", ".join(value for value, _ in self._seen.most_common(SHOWN))
            raise DataError(self._path, f"--where leaves out all records; they have {values}")
        if too_many or (count and not used):
            location, problem = self.problems[0]
            share = f" ({count} of {self.records} records cannot be read)" if count > 1 else ""
            raise DataError(self._path, problem + share, location)

    def report(self) -> dict[str, Any]:
        """What was left out and what could not be read, as plain data."""
        return {
            "left_out": {reason: count for reason, count in self.left_out.items() if count},
            "unreadable": len(self.problems),
            "problems": [f"{location}: {problem}" for location, problem in self.problems[:SHOWN]],
        }
