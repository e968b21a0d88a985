"""Append-only files of lines: what was appended is whole, whatever happens meanwhile."""

import itertools
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from costgym.simulators.errors import DataError
from costgym.simulators.files.drafts import writing
from costgym.simulators.files.plain import open_own, open_plain

LONGEST_LINE = 64 * 2**20  # bytes: far above any record, and a bound on the memory that a hostile file can take


def read_lines(path: Path) -> list[str]:
    """Read the complete lines of an append-only file; a last line without a line end was cut off by a crash and is ignored."""
    return list(iter_lines(path)) if path.exists() else []


def iter_lines(path: Path) -> Iterator[str]:
    """The same one by one, in memory that does not grow with the file; raises DataError if the file cannot be read, a line is
    no UTF-8, or a line is longer than `LONGEST_LINE`."""
    try:
        with open_plain(path, follow=False) as store:
            for number in itertools.count(1):
                line = store.readline(LONGEST_LINE + 1)
                if len(line) > LONGEST_LINE:
                    raise DataError(path, f"is longer than {LONGEST_LINE} bytes", f"line {number}")
                if not line.endswith(b"\n"):
                    return
                try:
                    yield line[:-1].decode("utf-8")
                except UnicodeDecodeError as error:
                    raise DataError(path, f"is not UTF-8 text ({error.reason})", f"line {number}") from None
    except OSError as error:
        raise DataError(path, f"cannot be read: {error.strerror}") from error


def has_tail(path: Path) -> bool:
    """Return whether something stands after the last complete line of a file."""
    try:
        with open_plain(path, follow=False) as store:
            return bool(store.seek(0, os.SEEK_END)) and (store.seek(-1, os.SEEK_END), store.read(1))[1] != b"\n"
    except OSError as error:
        raise DataError(path, f"cannot be read: {error.strerror}") from error


def keep_lines(path: Path, most: int) -> int:
    """Truncate a file after its first `most` complete lines, and any incomplete last line; return the number of lines left."""
    if not path.exists():
        return 0
    whole = end = 0
    with writing(path), os.fdopen(open_own(path, os.O_RDWR), "r+b") as store:
        for line in store:
            if whole == most or not line.endswith(b"\n"):
                break
            whole += 1
            end += len(line)
        store.truncate(end)
    return whole


class LineFile:
    """Lines appended to a file, each of them whole or not at all; a line is with the system when `append` returns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with writing(path):
            self._store = os.fdopen(open_own(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "ab", buffering=0)
            self._ends = [self._store.seek(0, os.SEEK_END)]

    @property
    def empty(self) -> bool:
        """Return whether there is no line yet."""
        return self._ends[-1] == 0

    def append(self, line: str) -> None:
        """Append a line; raises DataError where that fails, and leaves the file as it was."""
        rest = memoryview(f"{line}\n".encode())
        end = self._ends[-1] + len(rest)
        with writing(self.path):
            try:
                while rest:
                    rest = rest[self._store.write(rest) :]
            except OSError:
                self._cut()
                raise
        self._ends = [self._ends[-1], end]

    def take_back(self) -> None:
        """Cut off the line that was appended last."""
        del self._ends[1:]
        self._cut()

    def _cut(self) -> None:
        with suppress(OSError):
            os.ftruncate(self._store.fileno(), self._ends[-1])

    def close(self) -> None:
        self._store.close()
