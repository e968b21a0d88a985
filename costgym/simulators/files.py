"""Write files atomically, so that after a crash there is either the old file or the new one, and read YAML within bounds."""

import ctypes
import errno
import glob
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml

from costgym.simulators.errors import DataError

REMEDIES = {
    errno.ENOSPC: "make room on the disk and run the same command again",
    errno.EDQUOT: "make room on the disk and run the same command again",
    errno.EIO: "check the disk and run the same command again",
    errno.EFBIG: "raise the limit on the size of files and run the same command again",
}


MAX_YAML_NODES, MAX_YAML_DEPTH = 1_000_000, 100  # of a document, with every alias written out


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


# libyaml splits the text into tokens; nodes are composed here, so that a document is refused before it grows or nests too deep
_PARSERS: Any = (yaml.composer.Composer, yaml.CSafeLoader) if yaml.__with_libyaml__ else (yaml.SafeLoader,)


class _BoundedLoader(*_PARSERS):  # type: ignore[misc]
    """Reads plain data; times stay text, as in JSON.

    It refuses keys that are given twice, parts too deep in each other, and aliases that make a document endless or far larger
    than its text.
    """

    def __init__(self, text: str) -> None:
        _PARSERS[-1].__init__(self, text)
        self.anchors: dict[Any, yaml.Node] = {}
        self._sizes: dict[int, int] = {}  # nodes below each node that is complete, itself included, aliases written out
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        is_alias = self.check_event(yaml.AliasEvent)
        self._depth += 1
        if self._depth > MAX_YAML_DEPTH:
            raise _refused(f"expected at most {MAX_YAML_DEPTH} levels of nested lists and mappings", self.peek_event())
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        if node is None:
            return node
        if is_alias and id(node) not in self._sizes:  # what it stands for is still open
            raise _refused("a part contains itself", node)
        if not is_alias:
            below: list[yaml.Node] = []
            if isinstance(node, yaml.MappingNode):
                below = [part for pair in node.value for part in pair]
            elif isinstance(node, yaml.SequenceNode):
                below = node.value
            self._sizes[id(node)] = 1 + sum(self._sizes[id(part)] for part in below)
        if self._sizes[id(node)] > MAX_YAML_NODES:
            raise _refused(f"its aliases expand to more than {MAX_YAML_NODES:,} parts", node)
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if (key.tag, key.value) in seen:
                    raise _refused(f"the key {key.value[:80]!r} is given twice", key)
                seen.add((key.tag, key.value))
        found: dict[Any, Any] = super().construct_mapping(node, deep)
        return found


_BoundedLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _refused(problem: str, at: Any) -> yaml.YAMLError:
    return yaml.constructor.ConstructorError(None, None, problem, at.start_mark)


def parse_yaml(text: str, name: object) -> Any:
    """Parse plain data; raises DataError with the line where it is not valid, gives a key twice, or is too deep or large."""
    try:
        return _BoundedLoader(text).get_single_data()
    except (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError) as error:  # a tag such as !!int, too
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or ""
        problem = f"is not valid YAML: {reason:.160}" if reason else "is not valid YAML"
        raise DataError(name, problem, f"line {mark.line + 1}" if mark else "") from error


def read_yaml(path: Path) -> Any:
    """Read a YAML file of plain data; raises DataError where it cannot be read, and as `parse_yaml` does."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(path, f"cannot be read: {getattr(error, 'strerror', None) or error}") from error
    return parse_yaml(text, path)
