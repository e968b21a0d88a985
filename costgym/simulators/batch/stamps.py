"""Digests of the kernels' sources, and whether compiled kernels lie on disk, told without an import of Numba."""

import hashlib
import os
import sys
from functools import lru_cache
from pathlib import Path


def digest(*files: Path) -> bytes:
    """The SHA-256 of files, one after another."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).digest()


@lru_cache(maxsize=1)
def batch_digest() -> bytes:
    """The digest of this folder and of the rule book, with which the stamp of every compiled kernel begins."""
    folder = Path(__file__).parent
    return digest(*sorted(folder.glob("*.py")), *sorted((folder.parent / "rules").glob("*.py")))


@lru_cache
def perhaps_stored(module: Path, kernel: str) -> bool:
    """Return whether some form of a kernel seems to be on disk, compiled from this version for this Python.

    It takes a millisecond or two, once in a process. Whether the form that is needed is there, and fits the processor, only
    `rng.stored` can tell, which imports Numba.
    """
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return False
    given = os.environ.get("NUMBA_CACHE_DIR")
    users = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "numba"
    # the places of Numba's locators: the folder that is asked for, else beside the source, else the user's
    folders = [Path(given)] if given else [module.parent, users]
    name = f"{module.stem}.{kernel}-*.py{sys.version_info.major}{sys.version_info.minor}.nbi"
    found = (index for folder in folders for index in folder.glob(f"*/{name}"))
    try:
        return any(batch_digest() in index.read_bytes() for index in found)
    except OSError:
        return False
