"""Read what may be somebody else's: plain files below a folder's own descriptor, no links or special files, within bounds.

A folder, an archive or a file that others wrote can hold links that lead out of it, FIFOs that never answer, devices, and more
than a disk or a memory holds. Readers work on a private copy of what is plain; nothing here writes where it reads.
"""

import fnmatch
import hashlib
import itertools
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO

from costgym.simulators.errors import ConfigError, CostGymError, DataError

MAX_FILES, MAX_BYTES, MAX_DEPTH = 20_000, 4 * 2**30, 12  # bounds on a folder that somebody else hands in
MAX_DOCUMENT_BYTES = 64 * 2**20  # of a file that is read whole
MAX_OWN_NAMES = 500_000  # files and folders in a folder of one's own, so that a check takes seconds

LOCK = ".lock"
NEXT = ".next"  # a change of several files that is decided and may not be in place yet

_AT_ONCE = sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
_NO_FOLLOW = _AT_ONCE | getattr(os, "O_NOFOLLOW", 0)
_BY_DESCRIPTOR = {os.open, os.stat, os.mkdir, os.rename} <= os.supports_dir_fd and os.scandir in os.supports_fd
_OWN_DESCRIPTORS = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")  # a pipe of the shell, as in `<(zcat log.gz)`
_KINDS = {
    stat.S_IFLNK: "a link", stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device", stat.S_IFDIR: "a folder",
}  # fmt: skip


def check_plain(path: object, about: os.stat_result, hard_links: bool = True) -> None:
    """Raise DataError unless what stands at a path is a plain file."""
    if not stat.S_ISREG(about.st_mode):
        kind = _KINDS.get(stat.S_IFMT(about.st_mode), "of an unknown kind")
        raise DataError(path, f"is {kind}; expected a plain file")
    if about.st_nlink > 1 and not hard_links:
        raise DataError(path, "is a hard link, another name of a file elsewhere; expected a plain file, as `cp` makes one")


def open_plain(path: Path, follow: bool = True) -> BinaryIO:
    """Open a plain file to read, without waiting for anybody; a link at the path itself is followed where `follow` says so.
    Raises DataError for anything else than a plain file, or where it cannot be read."""
    try:
        if follow and str(path).startswith(_OWN_DESCRIPTORS):
            return path.open("rb")
        check_plain(path, path.stat() if follow else path.lstat())
        handle = os.open(path, os.O_RDONLY | (_AT_ONCE if follow else _NO_FOLLOW))
    except (OSError, ValueError) as error:  # a NUL in the name
        raise DataError(path, f"cannot be read: {getattr(error, 'strerror', None) or error}") from error
    store = os.fdopen(handle, "rb")
    try:
        check_plain(path, os.fstat(handle))  # another may have taken its place meanwhile
    except DataError:
        store.close()
        raise
    return store


def open_own(path: Path, flags: int) -> int:
    """The descriptor of a plain file that is written to in place, which `flags` may create; raises DataError for a link."""
    if path.is_symlink() or path.exists():
        check_plain(path, path.lstat(), hard_links=False)
    return os.open(path, flags | _NO_FOLLOW, 0o666)


def read_bytes(path: Path, most: int = MAX_DOCUMENT_BYTES, follow: bool = True) -> bytes:
    """Read a plain file of at most `most` bytes whole; raises DataError where it is larger, or as `open_plain` does."""
    with open_plain(path, follow) as store:
        try:
            # a file is refused by its size, before it takes memory; a pipe has none
            size = os.fstat(store.fileno()).st_size
            content = b"" if size > most else store.read(most + 1)
        except OSError as error:
            raise DataError(path, f"cannot be read: {error.strerror}") from error
    if max(size, len(content)) > most:
        raise DataError(path, f"is larger than {most >> 20:,} MiB")
    return content


def read_text(path: Path, most: int = MAX_DOCUMENT_BYTES, follow: bool = True) -> str:
    """`read_bytes` of a file of UTF-8 text."""
    try:
        return read_bytes(path, most, follow).decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(path, f"cannot be read: it is not UTF-8 text ({error.reason})") from error


class Directory:
    """A folder by its descriptor: what is opened, moved or removed below it follows no link, whatever stands there by then.

    Errors name it by `path`, or by a name where `path` is that of what is in it alone. Systems without such calls (Windows)
    go by `target`, the path that leads there.
    """

    def __init__(self, path: Path, target: Path, name: str = "") -> None:
        self.path, self._target, self._name = path, target, name
        self.handle: int | None = None

    def __str__(self) -> str:
        return self._name or str(self.path)

    @classmethod
    @contextmanager
    def opened(cls, target: Path, path: Path | None = None, name: str = "") -> Iterator["Directory"]:
        """Open a folder that the user names, which may be a link to one; raises DataError where there is none."""
        with cls(target if path is None else path, target, name)._opened(target, None, 0) as directory:
            yield directory

    @contextmanager
    def folder(self, name: str, make: bool = False) -> Iterator["Directory"]:
        """Open a folder in this one, and make it first where it is missing; raises DataError for a link, too."""
        if make and self.stat(name) is None:
            os.mkdir(self.at(name), dir_fd=self.handle)
        below = Directory(self.path / name, self._target / name)
        with below._opened(Path(self.at(name)), self.handle, getattr(os, "O_NOFOLLOW", 0)) as directory:
            yield directory

    @contextmanager
    def _opened(self, target: Path, base: int | None, flags: int) -> Iterator["Directory"]:
        try:
            about = os.stat(target, dir_fd=base, follow_symlinks=not flags)
            if not stat.S_ISDIR(about.st_mode):
                kind = _KINDS.get(stat.S_IFMT(about.st_mode), "a file")
                raise DataError(self, f"is {kind}; expected a folder")
            if _BY_DESCRIPTOR:
                self.handle = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | flags, dir_fd=base)
        except OSError as error:
            raise DataError(self, f"cannot be read: {error.strerror or error}") from error
        try:
            yield self
        finally:
            if self.handle is not None:
                os.close(self.handle)

    def at(self, name: str) -> str:
        """What names an entry in calls that take `handle`."""
        return name if self.handle is not None else str(self._target / name)

    def stat(self, name: str) -> os.stat_result | None:
        """What stands under a name, or None."""
        try:
            return os.stat(self.at(name), dir_fd=self.handle, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def entries(self, most: int = MAX_FILES) -> list[os.DirEntry[str]]:
        """What is in the folder, in the order of the names; of more than `most` entries one more than that."""
        try:
            with os.scandir(self._target if self.handle is None else self.handle) as entries:
                return sorted(itertools.islice(entries, most + 1), key=lambda entry: entry.name)
        except OSError as error:
            raise DataError(self, f"cannot be read: {error.strerror}") from error

    def file(self, name: str, flags: int = os.O_RDONLY) -> int:
        """The descriptor of a plain file in the folder, which `flags` may create; raises DataError for anything else."""
        path = self.path / name
        try:
            about = self.stat(name)
            if about is not None:
                check_plain(path, about)
            handle = os.open(self.at(name), flags | _NO_FOLLOW, 0o666, dir_fd=self.handle)
        except OSError as error:
            doing = "read" if flags == os.O_RDONLY else "written"
            raise DataError(path, f"cannot be {doing}: {error.strerror or error}") from error
        try:
            check_plain(path, os.fstat(handle))
        except DataError:
            os.close(handle)
            raise
        return handle

    def move(self, name: str, target: "Directory") -> None:
        """Move an entry into another folder, in place of what stands there under its name."""
        about = self.stat(name)
        if about is not None and stat.S_ISDIR(about.st_mode):
            target.remove(name)
        elif about is not None:
            check_plain(self.path / name, about)
        os.replace(self.at(name), target.at(name), src_dir_fd=self.handle, dst_dir_fd=target.handle)

    def remove(self, name: str) -> None:
        """Remove a file, a link or a folder, if it is there."""
        about = self.stat(name)
        if about is not None and stat.S_ISDIR(about.st_mode):
            shutil.rmtree(self.at(name), dir_fd=self.handle)
        elif about is not None:
            os.unlink(self.at(name), dir_fd=self.handle)

    def sync(self) -> None:
        """Make the names in the folder outlast a power cut."""
        if self.handle is not None:
            os.fsync(self.handle)


class _Walk:
    """The plain files below a folder, each with its path in it and the folder that holds it, in the order of their names."""

    def __init__(self, most: int, hard_links: bool) -> None:
        self.most, self.hard_links, self.names = most, hard_links, 0

    def files(self, folder: Directory, inside: tuple[str, ...] = ()) -> Iterator[tuple[str, Directory, str]]:
        """Raises DataError for a link or a special file, too many names, or too many nested folders."""
        if len(inside) > MAX_DEPTH:
            raise DataError(folder, f"has more than {MAX_DEPTH} nested folders")
        entries = folder.entries(self.most)
        self.names += len(entries)
        if self.names > self.most:
            raise DataError(folder, f"holds more than {self.most:,} files")
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                with folder.folder(entry.name) as below:
                    yield from self.files(below, (*inside, entry.name))
                continue
            about = folder.stat(entry.name)
            if about is not None:  # a draft that was renamed meanwhile
                check_plain(folder.path / entry.name, about, self.hard_links)
                yield "/".join((*inside, entry.name)), folder, entry.name


def expect_plain(folder: Directory) -> None:
    """Refuse a folder to write in that holds links or special files: what is written there could end elsewhere."""
    try:
        for _ in _Walk(MAX_OWN_NAMES, hard_links=False).files(folder):
            pass
    except DataError as error:
        problem = f"{error.problem}; costgym writes only where all is plain: remove it, or choose another folder"
        raise DataError(error.path, problem) from None


def plain_files(folder: Path, suffix: str = "") -> list[Path]:
    """The plain files below a folder of somebody else's whose names end so, sorted; raises DataError where it holds links or
    special files, or too many files."""
    with Directory.opened(folder) as directory:
        return [folder / name for name, _, _ in _Walk(MAX_FILES, hard_links=True).files(directory) if name.endswith(suffix)]


def snapshot(folder: Path, copy: Path | None = None) -> str:
    """Hash names and contents of a folder of somebody else's, 16 bytes in hex, and copy what was hashed where a folder is
    given. Raises DataError, which names what is in the folder alone, where that is no plain file or folder, or too much."""
    if folder.is_symlink():
        raise DataError(folder.name, "is a link; expected a folder")
    with Directory.opened(folder, Path(), folder.name) as directory:
        return _copy(directory, copy, hard_links=False)


def _copy(directory: Directory, copy: Path | None, hard_links: bool, only: Sequence[str] = ()) -> str:
    """`snapshot` of an open folder, `only` of the files that fit one of these patterns; each is opened once."""
    state, size = hashlib.blake2b(digest_size=16), 0
    for name, below, last in _Walk(MAX_FILES, hard_links).files(directory):
        if only and not any(fnmatch.fnmatchcase(name, pattern) for pattern in only):
            continue
        with os.fdopen(below.file(last), "rb") as store:
            about = os.fstat(store.fileno())
            check_plain(below.path / last, about, hard_links)
            size += about.st_size
            if size > MAX_BYTES:
                raise DataError(directory, f"is larger than {MAX_BYTES >> 20:,} MiB")
            content = _copied(store, about.st_size, None if copy is None else copy / name)
        title = os.fsencode(name)
        state.update(b"%d " % len(title) + title + content)
    return state.hexdigest()


def _copied(store: BinaryIO, size: int, target: Path | None) -> bytes:
    """Hash the first `size` bytes of a file, which may grow meanwhile, and copy them."""
    content = hashlib.blake2b(digest_size=16)
    try:
        if target is not None:
            target.parent.mkdir(parents=True, exist_ok=True)
        # "x": where letters have no case, two names may be one
        with nullcontext() if target is None else target.open("xb") as out:
            while size and (part := store.read(min(size, 2**20))):
                content.update(part)
                size -= len(part)
                if out is not None:
                    out.write(part)
    except OSError as error:
        problem = f"cannot be copied: {error.strerror}; make room for temporary files, or name another place for them by TMPDIR"
        raise DataError(target or store.name, problem) from error
    return content.digest()


@contextmanager
def private_copy(folder: Path, only: Sequence[str] = ()) -> Iterator[Path]:
    """A copy of a folder that may be somebody else's, `only` of the files that fit these patterns, to be read instead of it; it
    is removed afterwards, and errors of the block name the folder itself.

    Nobody writes to the folder meanwhile who locks it; it is not written to. Raises DataError where it holds links, special
    files, too much, or a change that its owner has not finished, ConfigError if another process writes there.
    """
    with tempfile.TemporaryDirectory(prefix="costgym-", ignore_cleanup_errors=True) as below:
        copy = Path(below, folder.resolve().name or "folder")
        try:
            copy.mkdir()
            with Directory.opened(folder) as directory, shared_lock(directory):
                if directory.stat(NEXT) is not None:
                    problem = "holds a change that was interrupted; its owner runs the command again that wrote it"
                    raise DataError(folder, problem)
                _copy(directory, copy, hard_links=True, only=only)
            yield copy
        except CostGymError as error:
            _rename(error, str(copy), str(folder))
            raise


def _rename(error: CostGymError, copy: str, folder: str) -> None:
    """Let an error name the folder and not its copy."""
    error.args = tuple(part.replace(copy, folder) if isinstance(part, str) else part for part in error.args)
    for name, value in vars(error).items():
        if isinstance(value, str):
            setattr(error, name, value.replace(copy, folder))


@contextmanager
def shared_lock(directory: Directory) -> Iterator[None]:
    """Keep writers out of a folder; one without a lock file has none. Raises ConfigError if another process writes there."""
    if directory.stat(LOCK) is None:
        yield
        return
    with locked(directory, os.O_RDONLY, shared=True):
        yield


@contextmanager
def locked(directory: Directory, flags: int, shared: bool) -> Iterator[None]:
    """Hold the lock of a folder."""
    with os.fdopen(directory.file(LOCK, flags), "rb") as handle:
        try:
            import fcntl
        except ImportError:  # Windows has no such locks: the user keeps the folders apart
            yield
            return
        folder = str(directory)
        try:
            fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            also = "" if shared else " or reads it"
            raise ConfigError("--out", f"another process writes to {folder}{also}; wait until it has ended") from None
        except OSError as error:
            problem = f"cannot be locked: {error.strerror}; choose a folder on another file system"
            raise DataError(folder, problem) from error
        yield
