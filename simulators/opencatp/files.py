"""Write the files of OpenCATP's tools and profiles whole or not at all."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from ..errors import DataError


def replace_file(path: Path, content: bytes) -> None:
    """Put a file in the place of what stands there, in one step; it outlasts a power cut.

    Args:
        path: the file; its folder is made where it is missing.
        content: its bytes.

    Raises:
        DataError: it cannot be written; what stood there stays.
    """
    # beside the file, since a rename is one step only within a file system; with the process's number, so that two may write
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("wb") as store:
            store.write(content)
            store.flush()
            os.fsync(store.fileno())
        draft.replace(path)
        if os.name != "nt":  # Windows cannot sync a folder
            handle = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
    except OSError as error:
        problem = f"cannot be written: {error.strerror or error}; make room, or choose another place"
        raise DataError(path, problem) from error
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
