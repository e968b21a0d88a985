"""Write files atomically: after a crash there is either the old file or the new one."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..simulators.errors import ConfigError, DataError

LONGEST_LINE = 64 * 2**20
"""Greatest length of a line, bytes: far above any record, and a bound on the memory that a hostile file can take."""


def write_atomically(path: Path, text: str) -> None:
    """Replace a file's content in one step."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise DataError(path, f"cannot be written: {error.strerror}") from error


@contextmanager
def finished_file(path: Path) -> Iterator[Path]:
    """Open a draft that is renamed to `path` if the block ends without an error, and removed otherwise.

    Raises:
        ConfigError: `path` exists already.
    """
    with _finished(path, lambda draft: draft.unlink(missing_ok=True)) as draft:
        yield draft


@contextmanager
def finished_folder(path: Path) -> Iterator[Path]:
    """The same for a folder; the draft is created empty."""
    with _finished(path, lambda draft: shutil.rmtree(draft, ignore_errors=True)) as draft:
        draft.mkdir()
        yield draft


@contextmanager
def _finished(path: Path, remove: Callable[[Path], None]) -> Iterator[Path]:
    if path.exists():
        raise ConfigError("--out", f"{path} exists already; choose another name")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError("--out", f"{path.parent} cannot be a folder: {error.strerror}") from error
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    remove(draft)
    try:
        yield draft
        draft.rename(path)
    finally:
        remove(draft)


def read_lines(path: Path) -> list[str]:
    """Read the complete lines of an append-only file; a last line without a line end was cut off by a crash and is ignored."""
    return list(iter_lines(path)) if path.exists() else []


def iter_lines(path: Path) -> Iterator[str]:
    """The same one by one, in memory that does not grow with the file.

    Raises:
        DataError: the file cannot be read, a line is no UTF-8, or a line is longer than `LONGEST_LINE`.
    """
    try:
        with path.open("rb") as store:
            for number in itertools.count(1):
                line = store.readline(LONGEST_LINE + 1)
                if len(line) > LONGEST_LINE:
                    raise DataError(path, f"is longer than {LONGEST_LINE} bytes", f"line {number}")
                if not line.endswith(b"\n"):
                    return
                try:
                    yield line[:-1].decode("utf-8")
                except UnicodeDecodeError as error:
                    raise DataError(path, f"is no UTF-8 text ({error.reason})", f"line {number}") from None
    except OSError as error:
        raise DataError(path, f"cannot be read: {error.strerror}") from error


def keep_lines(path: Path, most: int) -> int:
    """Truncate a file after its first `most` complete lines, and any incomplete last line; return the number of lines left."""
    if not path.exists():
        return 0
    kept = end = 0
    with path.open("r+b") as store:
        for line in store:
            if kept == most or not line.endswith(b"\n"):
                break
            kept += 1
            end += len(line)
        store.truncate(end)
    return kept


@contextmanager
def sole_writer(folder: Path) -> Iterator[None]:
    """Lock a folder for one process. The system releases the lock when the process ends, even after a crash.

    Raises:
        ConfigError: another process holds the lock.
    """
    try:
        import fcntl
    except ImportError:  # no such locks on Windows: the user keeps the folders apart
        yield
        return
    with (folder / ".lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError("--out", f"another process writes to {folder}; wait for it or choose another folder") from None
        yield
