"""Find the documents of a source: a file, a folder, an archive of a package, a package of a registry, or an MCP command.

Nothing of a source is executed, except an MCP server, whose command the user gives. Nothing leads out of a source: links are
not followed, and references are resolved within it.
"""

import gzip
import io
import itertools
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from costgym.experiments.fit.forge.fetching import downloaded, mcp_document
from costgym.simulators.errors import ConfigError, DataError
from costgym.simulators.files import open_plain, read_bytes
from costgym.simulators.forge.readers.documents import MAX_BYTES, Fetch
from costgym.simulators.forge.readers.operations import Api, Skipped
from costgym.simulators.forge.readers.reading import SUFFIXES, read_document

MAX_FILES = 50_000
MAX_ENTRIES = 200_000  # of a folder, with those that are no documents
"""Most files of a source that are looked at."""
MAX_TOTAL = 4 * 2**30
"""Most bytes of an archive's documents together."""
ARCHIVES = (".tgz", ".tar.gz", ".zip", ".whl")
COMMAND, REGISTRY = "mcp:", "registry:"


@dataclass(frozen=True, slots=True)
class Document:
    """A document of a source: its path within it, and how its bytes and those of its neighbours are read."""

    name: str
    content: Callable[[], bytes] = field(repr=False)
    fetch: Fetch | None = field(default=None, repr=False)

    def read(self) -> Api | Skipped:
        """The API in it, or why it cannot be read."""
        try:
            return read_document(self.name, self.content(), self.fetch)
        except DataError as error:
            return Skipped(f"{error.path}{f', {error.location}' if error.location else ''}", error.problem)


def documents(source: str, cache: Path) -> list[Document]:
    """The documents of a source, in a fixed order: a file, a folder, an archive, `registry:NAME@VERSION` or `mcp:COMMAND`.
    Raises ConfigError if there is no such source, or nothing in it can be a document."""
    if source.startswith(COMMAND):
        return [Document(*mcp_document(source.removeprefix(COMMAND)))]
    path = downloaded(source.removeprefix(REGISTRY), cache) if source.startswith(REGISTRY) else Path(source)
    if path.is_dir():
        names = _names(path)
        listed = [Document(name, partial(_bytes, path / name, name), partial(_neighbour, path)) for name in names]
    elif path.name.endswith(ARCHIVES) and path.is_file():
        listed = _of_archive(path)
    elif path.is_file():
        listed = [Document(path.name, partial(_bytes, path, path.name), partial(_neighbour, path.parent))]
    else:
        raise ConfigError(
            "SOURCE", f"expected a file, a folder, an archive, registry:NAME@VERSION or mcp:COMMAND, got {source!r}"
        )
    if not listed:
        raise ConfigError("SOURCE", f"{source}: no file in it ends in {', '.join(SUFFIXES)}")
    return listed


def _is_document(name: str) -> bool:
    """Return whether a file of a folder or an archive may be a document: botocore has several kinds of files beside them."""
    if "botocore/data/" in name:
        return name.endswith("/service-2.json.gz")
    if name.endswith(".py"):
        return False
    parts = name.split("/")
    return name.endswith(SUFFIXES) and not any(part.startswith(".") or part == "node_modules" for part in parts)


def _bytes(path: Path, name: str) -> bytes:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise DataError(name, f"expected at most {MAX_BYTES // 2**20} MiB, got {path.stat().st_size / 2**20:.0f} MiB")
        return _unpacked(read_bytes(path, MAX_BYTES), name)
    except OSError as error:
        raise DataError(name, f"cannot be read: {error.strerror}") from error


def _unpacked(content: bytes, name: str) -> bytes:
    if not name.endswith(".gz"):
        return content
    try:
        with gzip.open(io.BytesIO(content)) as store:
            plain = store.read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(name, f"is not valid gzip: {error}") from None
    if len(plain) > MAX_BYTES:
        raise DataError(name, f"expected at most {MAX_BYTES // 2**20} MiB once unpacked")
    return plain


def _neighbour(root: Path, name: str) -> bytes | None:
    """Another file of a source by its path; None for one that is not there or leads out of the source through a link."""
    path = root / name
    if not path.is_file() or not path.resolve().is_relative_to(root.resolve()):
        return None
    return _bytes(path, name)


def _names(root: Path) -> list[str]:
    names: list[str] = []
    try:
        paths = list(itertools.islice(root.rglob("*"), MAX_ENTRIES + 1))
    except RecursionError:
        raise ConfigError("SOURCE", f"{root}: its folders are nested too deeply") from None
    if len(paths) > MAX_ENTRIES:
        raise ConfigError("SOURCE", f"{root}: expected at most {MAX_ENTRIES:,} files and folders")
    for path in sorted(paths):
        name = path.relative_to(root).as_posix()
        if not _is_document(name) or not path.is_file() or not path.resolve().is_relative_to(root.resolve()):
            continue
        if len(names) >= MAX_FILES:
            raise ConfigError("SOURCE", f"{root}: expected at most {MAX_FILES} files")
        names.append(name)
    return names


def _of_archive(path: Path) -> list[Document]:
    open_plain(path).close()
    try:
        read, names = _zipped(path) if path.suffix in (".zip", ".whl") else _tarred(path)
    except (OSError, EOFError, tarfile.TarError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        raise DataError(path, f"is not an archive that can be read: {error}") from error
    known = set(names)

    def fetch(name: str) -> bytes | None:
        return read(name) if name in known else None

    return [Document(name, partial(read, name), fetch) for name in sorted(names) if _is_document(name)]


def _zipped(path: Path) -> tuple[Callable[[str], bytes], list[str]]:
    store = zipfile.ZipFile(path)
    sizes = {info.filename: info.file_size for info in store.infolist()[:MAX_FILES] if not info.is_dir()}

    def read(name: str) -> bytes:
        if sizes[name] > MAX_BYTES:
            raise DataError(name, f"expected at most {MAX_BYTES // 2**20} MiB, got {sizes[name] / 2**20:.0f} MiB")
        try:
            with store.open(name) as member:
                return _unpacked(member.read(MAX_BYTES + 1), name)
        except (OSError, zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError) as error:
            raise DataError(name, f"cannot be read: {error}") from None

    return read, list(sizes)


def _tarred(path: Path) -> tuple[Callable[[str], bytes], list[str]]:
    """The members of a tar archive. It is unpacked into memory once, since it can only be read from front to back."""
    packed: dict[str, bytes] = {}
    total = 0
    with tarfile.open(path) as store:
        for number, member in enumerate(store):
            name = member.name.removeprefix("package/").removeprefix("./")
            if number >= MAX_FILES or not member.isfile() or not name.endswith(SUFFIXES) or name.endswith(".py"):
                continue
            if member.size > MAX_BYTES or total + member.size > MAX_TOTAL:
                packed[name] = b""
                continue
            reader = store.extractfile(member)
            if reader is not None:
                # kept packed: a collection of 430 MB takes 60 MB so
                packed[name] = zlib.compress(reader.read(), 1)
                total += member.size

    def read(name: str) -> bytes:
        if not packed[name]:
            raise DataError(name, f"expected at most {MAX_BYTES // 2**20} MiB")
        return _unpacked(zlib.decompress(packed[name]), name)

    return read, list(packed)
