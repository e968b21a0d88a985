"""Many worlds in a folder, each read when it is asked for, so that memory stays flat however many there are."""

import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, overload

from costgym.simulators.errors import DataError, UnknownName
from costgym.simulators.files import LONGEST_LINE, decode_json, open_plain, read_json

INDEX, FORMAT = "index.json", "costgym.worlds/1"
KEPT = 8  # worlds that are kept once they are read
World = TypeVar("World")


class WorldFolder(Sequence[World]):
    """The worlds of a split's folder, with an `index.json`, that `costgym forge` wrote; `parse` makes a world of its document
    and the folder, as `parse_scenario` does."""

    def __init__(self, folder: Path, parse: Callable[[dict[str, Any], Path], World]) -> None:
        self.folder, self._parse = folder, parse
        self._world = lru_cache(maxsize=KEPT)(lambda number: parse(self._read(number), folder))
        path = folder / INDEX
        try:
            index = read_json(path)
            if index["format"] != FORMAT:
                raise DataError(path, f"expected {FORMAT!r}, got {index['format']!r:.60}")
            self.most_candidates = int(index["most_candidates"])
            self._locations = [(str(block["file"]), int(at)) for block in index["blocks"] for at in block["offsets"]]
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            raise DataError(path, f"is not an index of worlds: {error!r:.100}") from error
        if not self._locations:
            raise DataError(path, "expected at least one world, got none")
        if any("/" in name or "\\" in name or name.startswith(".") for name, _ in self._locations):
            raise DataError(path, "names a file outside its folder")

    def __len__(self) -> int:
        return len(self._locations)

    @overload
    def __getitem__(self, number: int) -> World: ...
    @overload
    def __getitem__(self, number: slice) -> list[World]: ...
    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[index] for index in range(*number.indices(len(self)))]
        index = number + len(self) if number < 0 else number
        if not 0 <= index < len(self):
            raise IndexError(f"world {number} of {len(self)}")
        return self._world(index)

    def __reduce__(self) -> tuple[Any, ...]:
        return WorldFolder, (self.folder, self._parse)

    def digest(self) -> bytes:
        """Hash of the index and of every world, as they lie on the disk."""
        state = hashlib.blake2b(digest_size=16)
        for name in dict.fromkeys((INDEX, *(file for file, _ in self._locations))):
            with open_plain(self.folder / name, follow=False) as store:
                while part := store.read(2**20):
                    state.update(part)
        return state.digest()

    def _read(self, number: int) -> dict[str, Any]:
        name, offset = self._locations[number]
        path = self.folder / name
        try:
            with open_plain(path, follow=False) as store:
                store.seek(offset)
                document: dict[str, Any] = decode_json(store.readline(LONGEST_LINE).decode())
        except (OSError, ValueError, OverflowError) as error:
            raise DataError(path, "is not a world; run the command that wrote it again", f"world {number}") from error
        return document


def is_folder(value: object) -> bool:
    """Return whether a name is that of a folder of worlds."""
    return isinstance(value, str | Path) and (Path(value) / INDEX).is_file()


def document_of_folder(folder: str | Path) -> dict[str, Any] | None:
    """The scenario that FOLDER/SPLIT/NUMBER names; None where it names none."""
    path = Path(folder)
    if not path.name.isdigit() or not is_folder(path.parent):
        return None
    worlds: WorldFolder[dict[str, Any]] = WorldFolder(path.parent, lambda document, _: document)
    if int(path.name) >= len(worlds):
        raise UnknownName("world", path.name, [f"0 to {len(worlds) - 1}"])
    return worlds[int(path.name)]
