"""Write files atomically, so that after a crash there is either the old file or the new one."""

import ctypes
import errno
import glob
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from costgym.simulators.errors import ConfigError, DataError

REMEDIES = {
    errno.ENOSPC: "make room on the disk and run the same command again",
    errno.EDQUOT: "make room on the disk and run the same command again",
    errno.EIO: "check the disk and run the same command again",
    errno.EFBIG: "raise the limit on the size of files and run the same command again",
}


def cannot_write(path: object, error: OSError) -> DataError:
    """The error for a file that cannot be written: which one, why, and what to do."""
    remedy = REMEDIES.get(error.errno or 0, "choose another place, or make this one writable")
    return DataError(path, f"cannot be written: {error.strerror or error}; {remedy}")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Name the file in errors of the file system, which do not name it where a write fails; raises DataError."""
    try:
        yield
    except OSError as error:
        raise cannot_write(path, error) from error


def write_atomically(path: Path, content: str | bytes, parents: bool = False) -> None:
    """Replace a file's content in one step; what was written outlasts a power cut.

    Raises:
        DataError: it cannot be written; what stood there stays.
    """
    if not path.name:
        raise DataError(path, "is not a file name; choose one")
    with writing(path):
        if parents:
            path.parent.mkdir(parents=True, exist_ok=True)
        try:
            data = content if isinstance(content, bytes) else content.encode()
        except UnicodeEncodeError as error:
            problem = f"cannot be written: a lone surrogate (U+{ord(error.object[error.start]):04X}) in its text"
            raise DataError(path, problem) from None
        if path.is_char_device() or path.is_fifo():
            # written to and not replaced: a file in its place would take /dev/null from the whole machine
            path.write_bytes(data)
            return
        with replacing(path) as draft:
            draft.write_bytes(data)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A draft, file or folder, that takes the place of `path` whole and lasting if the block ends well; raises DataError."""
    # beside the file, since a rename is one step only within a file system; the name tells which process writes it
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        remove_drafts(path)
        remove(draft)
        yield draft
        sync_tree(draft)
        _put(draft, path)
        sync_folder(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        with suppress(OSError):
            remove(draft)


def _put(draft: Path, path: Path) -> None:
    """Rename a draft to its place; a folder that stands there is in the draft's place afterwards."""
    if not (path.is_dir() and draft.is_dir()):  # a file does not take the place of a folder: that is an error
        draft.replace(path)
    # the exchange leaves no moment without the folder; elsewhere the old one waits under another name (`put_back`)
    elif not _exchange(draft, path):
        aside = _aside(path)
        remove(aside)
        path.rename(aside)
        try:
            draft.rename(path)
        except OSError:
            aside.rename(path)
            raise
        remove(aside)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange the names of two folders in one step; False where the system cannot."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if os.name == "posix" else None
    if rename is None:
        return False
    here, exchange = -100, 2  # AT_FDCWD and RENAME_EXCHANGE
    if rename(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL):
        return False
    raise OSError(number, os.strerror(number), str(other))


def _aside(path: Path) -> Path:
    return path.with_name(f".{path.name}.old")


def put_back(path: Path) -> None:
    """Where folders cannot be exchanged, a process that was killed in between left the old one beside its place."""
    if _aside(path).exists() and not path.exists():
        _aside(path).rename(path)


def remove(path: Path) -> None:
    """Remove a file or a folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def remove_drafts(path: Path) -> None:
    """Remove the drafts of `path` that processes left behind when they were killed."""
    for draft in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        owner = draft.name.removesuffix(".tmp").rpartition(".")[2]
        if owner.isdecimal() and not _alive(int(owner)):
            remove(draft)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True  # another user's, or a system that cannot say
    return True


def sync(path: Path) -> None:
    """Make a file, or all that is in a folder, outlast a power cut; raises DataError, which names it."""
    with writing(path):
        sync_tree(path)


def sync_tree(path: Path) -> None:
    """`sync` that leaves errors of the file system as they are."""
    if path.is_dir():
        for part in path.iterdir():
            sync_tree(part)
        sync_folder(path)
        return
    with path.open("rb") as store:
        os.fsync(store.fileno())


def sync_folder(folder: Path) -> None:
    """Make the names in a folder outlast a power cut."""
    if os.name == "nt":
        return  # Windows has no such call for folders
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(folder: Path, option: str = "--out") -> None:
    """Make a folder, and those above it that are missing; they outlast a power cut. Raises ConfigError if it cannot be one;
    names the command's option."""
    try:
        missing = [ancestor for ancestor in (folder, *folder.parents) if not ancestor.is_dir()]
        folder.mkdir(parents=True, exist_ok=True)
        for ancestor in missing:
            sync_folder(ancestor.parent)
    except OSError as error:
        if error.errno in REMEDIES:
            raise cannot_write(folder, error) from error
        raise ConfigError(option, f"{folder} cannot be a folder: {error.strerror}") from error


@contextmanager
def finished_file(path: Path, replace: bool = False) -> Iterator[Path]:
    """Open a draft that is renamed to `path` if the block ends without an error, and removed otherwise; raises ConfigError if
    something stands there and is not to be replaced, or its folder cannot be made."""
    if not path.name:
        raise ConfigError("--out", f"{str(path)!r} is not a file name; choose one")
    put_back(path)
    if path.exists() and not replace:
        raise ConfigError("--out", f"{path} exists already; choose another name")
    make_folder(path.parent)
    with replacing(path) as draft:
        yield draft


@contextmanager
def finished_folder(path: Path, replace: bool = False) -> Iterator[Path]:
    """The same for a folder; the draft is created empty."""
    with finished_file(path, replace) as draft:
        draft.mkdir()
        yield draft


def write_lines(path: Path, documents: Iterable[object], progress: Callable[[int], None] | None = None) -> Path:
    """Write a line of JSON for each document, and call `progress` with their number; errors as for `finished_file`."""
    with finished_file(path) as draft, draft.open("w", encoding="utf-8") as store:
        for count, document in enumerate(documents, 1):
            store.write(json.dumps(document, ensure_ascii=False) + "\n")
            if progress is not None:
                progress(count)
    return path
