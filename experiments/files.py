"""Writing files so that a crash leaves either the old one or the new one, never half."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..simulators.errors import ConfigError, DataError


def write_atomically(path: Path, text: str) -> None:
    """Replace a file's content in one step."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise DataError(path, f"cannot be written: {error.strerror}") from error


def read_lines(path: Path) -> list[str]:
    """Complete lines of an append-only file; a last line without its end was cut off by a crash and does not count."""
    if not path.exists():
        return []
    text = path.read_bytes()
    return text[: text.rfind(b"\n") + 1].decode("utf-8").splitlines()


@contextmanager
def sole_writer(folder: Path) -> Iterator[None]:
    """Hold a folder for one process; released by the system when the process ends, however it ends.

    Raises:
        ConfigError: another process writes there.
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
