"""The files of runs: drafts that take their place whole, changes of several files at once, append-only lines, and locks."""

import hashlib
import itertools
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from costgym.simulators.errors import ConfigError, DataError
from costgym.simulators.files import (
    REMEDIES,
    cannot_write,
    put_back,
    remove,
    remove_drafts,
    replacing,
    sync,
    sync_folder,
    sync_tree,
    write_atomically,
    writing,
)  # fmt: skip

__all__ = [
    "LOCK", "NEXT", "LineFile", "cannot_write", "change_together", "finish_change", "finished_file", "finished_folder",
    "has_tail", "iter_lines", "json_text", "keep_lines", "make_folder", "read_json", "read_lines", "reading", "remove",
    "remove_drafts", "snapshot", "sole_writer", "sync", "write_atomically", "write_lines", "writing",
]  # fmt: skip

LONGEST_LINE = 64 * 2**20  # bytes: far above any record, and a bound on the memory that a hostile file can take


def make_folder(folder: Path, option: str = "--out") -> None:
    """Make a folder, and those above it that are missing; they outlast a power cut. Raises ConfigError if it cannot be one;
    names the command's option."""
    try:
        missing = [each for each in (folder, *folder.parents) if not each.is_dir()]
        folder.mkdir(parents=True, exist_ok=True)
        for each in missing:
            sync_folder(each.parent)
    except OSError as error:
        if error.errno in REMEDIES:
            raise cannot_write(folder, error) from error
        raise ConfigError(option, f"{folder} cannot be a folder: {error.strerror}") from error


def json_text(document: object) -> str:
    """A document as every JSON file of a run or a submission holds it; their digests and comparisons rest on these bytes."""
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def read_json(path: Path) -> Any:
    """Read a JSON document that the caller checks; raises DataError where there is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError) as error:
        raise DataError(path, f"is not valid JSON ({error})") from error


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


NEXT = ".next"  # a change of several files that is decided and may not be in place yet


@contextmanager
def change_together(folder: Path) -> Iterator[Path]:
    """A draft folder whose files, and the parts of whose folders, replace those of the same place in `folder`, all or none:
    renaming it to `.next` decides, and `finish_change` moves what a killed process has not."""
    finish_change(folder)
    draft = folder / f"{NEXT}.{os.getpid()}.tmp"
    for left in folder.glob(f"{NEXT}.*.tmp"):
        remove(left)
    try:
        draft.mkdir()
        yield draft
        sync_tree(draft)
        draft.rename(folder / NEXT)
    except OSError as error:
        raise cannot_write(folder, error) from error
    finally:
        with suppress(OSError):
            remove(draft)
    finish_change(folder)


def finish_change(folder: Path) -> None:
    """Put the files of a decided change in their places; does nothing where there is none."""
    decided = folder / NEXT
    if not decided.is_dir():
        return
    try:
        touched = {folder}
        # documents come last: who finds a new table finds its pages
        for part in sorted(decided.iterdir(), key=lambda part: (part.suffix == ".json", part.name)):
            for each in sorted(part.iterdir()) if part.is_dir() else [part]:
                place = folder / each.relative_to(decided)
                place.parent.mkdir(exist_ok=True)
                touched.add(place.parent)
                if each.is_dir():
                    remove(place)
                each.replace(place)
        for each in sorted(touched):
            sync_folder(each)
        shutil.rmtree(decided)
    except OSError as error:
        problem = f"a change that was begun cannot be finished: {error.strerror or error}"
        raise DataError(folder, f"{problem}; run the same command again, which finishes it first") from error


def read_lines(path: Path) -> list[str]:
    """Read the complete lines of an append-only file; a last line without a line end was cut off by a crash and is ignored."""
    return list(iter_lines(path)) if path.exists() else []


def iter_lines(path: Path) -> Iterator[str]:
    """The same one by one, in memory that does not grow with the file; raises DataError if the file cannot be read, a line is
    no UTF-8, or a line is longer than `LONGEST_LINE`."""
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
                    raise DataError(path, f"is not UTF-8 text ({error.reason})", f"line {number}") from None
    except OSError as error:
        raise DataError(path, f"cannot be read: {error.strerror}") from error


def has_tail(path: Path) -> bool:
    """Return whether something stands after the last complete line of a file."""
    try:
        with path.open("rb") as store:
            return bool(store.seek(0, os.SEEK_END)) and (store.seek(-1, os.SEEK_END), store.read(1))[1] != b"\n"
    except OSError as error:
        raise DataError(path, f"cannot be read: {error.strerror}") from error


def keep_lines(path: Path, most: int) -> int:
    """Truncate a file after its first `most` complete lines, and any incomplete last line; return the number of lines left."""
    if not path.exists():
        return 0
    kept = end = 0
    with writing(path), path.open("r+b") as store:
        for line in store:
            if kept == most or not line.endswith(b"\n"):
                break
            kept += 1
            end += len(line)
        store.truncate(end)
    return kept


class LineFile:
    """Lines appended to a file, each of them whole or not at all; a line is with the system when `append` returns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with writing(path):
            self._store = path.open("ab", buffering=0)
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


MAX_FILES, MAX_BYTES, MAX_DEPTH = 20_000, 2 * 2**30, 12  # bounds on a folder that somebody else hands in


def snapshot(folder: Path, copy: Path | None = None) -> str:
    """Hash names and contents of a folder of somebody else's, 16 bytes in hex, and copy what was hashed where a place is given.
    Raises DataError where it holds something else than files and folders, or too much."""
    state, size = hashlib.blake2b(digest_size=16), 0
    for number, (name, path) in enumerate(_files(folder, ()), 1):
        if number > MAX_FILES:
            raise DataError(folder.name, f"holds more than {MAX_FILES:,} files")
        try:
            # the open file is looked at, since another may take the place of the one that was listed
            store = os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)), "rb")
        except OSError as error:
            raise DataError(name, f"cannot be read: {error.strerror}") from error
        with store:
            about = os.fstat(store.fileno())
            size += about.st_size
            if not stat.S_ISREG(about.st_mode) or about.st_nlink > 1:
                raise DataError(name, "is a hard link or a device, not a plain file")
            if size > MAX_BYTES:
                raise DataError(folder.name, f"is larger than {MAX_BYTES >> 20:,} MiB")
            target = Path(os.devnull) if copy is None else copy / name
            if copy is not None:
                target.parent.mkdir(parents=True, exist_ok=True)
            content, left = hashlib.blake2b(digest_size=16), about.st_size  # no more, though it may grow meanwhile
            with writing(target), target.open("wb") as out:
                while left and (part := store.read(min(left, 2**20))):
                    content.update(part)
                    out.write(part)
                    left -= len(part)
        title = os.fsencode(name)
        state.update(b"%d " % len(title) + title + content.digest())
    return state.hexdigest()


def _files(folder: Path, inside: tuple[str, ...]) -> Iterator[tuple[str, Path]]:
    """The files below a folder in the order of their names, each with its path in it."""
    if len(inside) > MAX_DEPTH:
        raise DataError(inside[0], f"has more than {MAX_DEPTH} nested folders")
    if folder.is_symlink():
        raise DataError(folder.name, "is a link; expected a folder")
    try:
        with os.scandir(folder) as entries:
            found = sorted(itertools.islice(entries, MAX_FILES + 1), key=lambda each: each.name)
    except OSError as error:
        raise DataError(folder.name, f"cannot be read: {error.strerror}") from error
    for each in found:
        name = "/".join((*inside, each.name))
        if each.is_dir(follow_symlinks=False):
            yield from _files(Path(each.path), (*inside, each.name))
        elif each.is_file(follow_symlinks=False):
            yield name, Path(each.path)
        else:
            raise DataError(name, "is neither a file nor a folder")


LOCK = ".lock"


@contextmanager
def sole_writer(folder: Path) -> Iterator[None]:
    """Lock a folder until this process ends, even by a crash; raises ConfigError if another one reads or writes there."""
    try:
        handle = (folder / LOCK).open("a")
    except OSError as error:
        raise cannot_write(folder, error) from error
    with handle, _locked(handle, folder, shared=False):
        yield


@contextmanager
def reading(*folders: Path) -> Iterator[None]:
    """Keep writers out of folders, so that all that is read belongs together; a change that was decided is finished first.
    Several may read at a time; a folder without a lock file has no writer. Raises ConfigError if another process writes."""
    with ExitStack() as locks:
        for folder in folders:
            if (folder / NEXT).is_dir():
                with sole_writer(folder):
                    finish_change(folder)
            if (folder / LOCK).is_file():
                handle = locks.enter_context((folder / LOCK).open())
                locks.enter_context(_locked(handle, folder, shared=True))
        yield


@contextmanager
def _locked(handle: IO[str], folder: Path, shared: bool) -> Iterator[None]:
    try:
        import fcntl
    except ImportError:  # Windows has no such locks: the user keeps the folders apart
        yield
        return
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        also = "" if shared else " or reads it"
        raise ConfigError("--out", f"another process writes to {folder}{also}; wait until it has ended") from None
    except OSError as error:
        raise DataError(folder, f"cannot be locked: {error.strerror}; choose a folder on another file system") from error
    yield
