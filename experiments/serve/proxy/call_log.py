"""The log of real calls: JSON lines, flushed one by one, that `costgym calibrate` and `costgym proxy report` read.

A run begins with a line that holds its settings (`format`), has a line for each call (`tool`) and each visible event of the
world (`event`), and ends with `end`. A line with `success` says, at any time, whether the run did what it was for.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ....simulators.errors import ConfigError, DataError, UnknownName
from ...play.call_logs.formats import CALL_LOG
from ...play.files import has_tail, iter_lines, keep_lines


class CallLog:
    """Appends the records of one run to a file, which may hold other runs; each is in the file when `write` returns."""

    def __init__(self, path: Path, run: str) -> None:
        self.path, self.run = path, run
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists() and has_tail(path):
                keep_lines(path, 2**62)  # the last line is incomplete, because the machine stopped
            self._file = path.open("ab", buffering=0)  # a line is one write, so runs may share a file
        except OSError as error:
            raise DataError(path, f"cannot be written: {error.strerror}") from error

    def write(self, record: Mapping[str, Any]) -> None:
        rest = memoryview(json.dumps({"run": self.run, **record}, default=str).encode() + b"\n")
        before = written = 0
        try:
            before = os.fstat(self._file.fileno()).st_size
            while rest:  # a write may be partial
                taken = self._file.write(rest)
                written, rest = written + taken, rest[taken:]
        except OSError as error:
            with suppress(OSError):  # remove the partial line, unless another run has written after it
                if written and os.fstat(self._file.fileno()).st_size == before + written:
                    os.ftruncate(self._file.fileno(), before)
            raise DataError(self.path, f"cannot be written: {error.strerror}") from error

    def close(self) -> None:
        self._file.close()


@dataclass(slots=True)
class Run:
    """A run of a log."""

    name: str
    settings: Mapping[str, Any]
    calls: list[Mapping[str, Any]] = field(default_factory=list)  # The records of its calls, in their order
    success: bool | None = None  # Whether it succeeded; None without a verdict
    reason: str | None = None  # Why it ended; None for a run that goes on, or whose proxy was killed

    @property
    def price(self) -> float:
        """Total price of its calls."""
        return sum(float(call.get("price") or 0.0) for call in self.calls)


def read_runs(paths: Sequence[Path]) -> list[Run]:
    """Read the runs of some logs, in the order in which they began. An incomplete last line is skipped.

    Raises:
        DataError: A file cannot be read or holds something else; names the line.
    """
    found: list[Run] = []
    for path in paths:
        runs: dict[str, Run] = {}
        for number, record in _records(path):
            name = record.get("run")
            if not isinstance(name, str):
                raise DataError(path, "the field 'run' is missing; expected a log of `costgym proxy`", f"line {number}")
            if record.get("format") == CALL_LOG:
                runs[name] = Run(name, record)
                found.append(runs[name])
            elif name not in runs:
                raise DataError(path, f"the run {name!r:.60} has no beginning", f"line {number}")
            elif "tool" in record:
                runs[name].calls.append(record)
            elif isinstance(record.get("success"), bool):
                runs[name].success = record["success"]
            elif "end" in record:
                runs[name].reason = str(record["end"])
    return found


def _records(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in enumerate(iter_lines(path), 1):
        try:
            record = json.loads(line)
        except ValueError:
            raise DataError(path, "is not valid JSON", f"line {number}") from None
        if not isinstance(record, dict):
            raise DataError(path, f"expected a JSON object, got {type(record).__name__}", f"line {number}")
        yield number, record


def give_verdict(path: str | Path, run: str, success: bool) -> None:
    """Write to a log whether a run succeeded. The last verdict counts.

    Raises:
        DataError: The log cannot be read or written.
        UnknownName: There is no such run.
    """
    path = Path(path)
    names = [each.name for each in read_runs([path])]
    if not names:
        raise ConfigError("run", f"{path} holds no runs")
    if run not in names:
        raise UnknownName("run", run, names)
    log = CallLog(path, run)
    log.write({"success": success})
    log.close()


def wall_time() -> str:
    """The time of day, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
