"""The documents of many worlds in a folder, each read when it is asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..errors import DataError, UnknownName

INDEX, FORMAT = "index.json", "costgym.worlds/1"


class WorldDocuments:
    """The scenarios of a split of a folder that `costgym forge` wrote, as plain data.

    Args:
        folder: The split's folder, which holds `index.json`.

    Raises:
        DataError: The index is missing or is not one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        place = folder / INDEX
        try:
            index = json.loads(place.read_text(encoding="utf-8"))
            if index["format"] != FORMAT:
                raise DataError(place, f"expected {FORMAT!r}, got {index['format']!r:.60}")
            self.most_candidates = int(index["most_candidates"])
            self._places = [(str(block["file"]), int(at)) for block in index["blocks"] for at in block["offsets"]]
        except OSError as error:
            raise DataError(place, f"cannot be read: {error.strerror}") from error
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise DataError(place, f"is not an index of worlds: {error!r:.100}") from error
        if not self._places:
            raise DataError(place, "expected at least one world, got none")
        if any("/" in name or "\\" in name or name.startswith(".") for name, _ in self._places):
            raise DataError(place, "names a file outside its folder")

    def __len__(self) -> int:
        return len(self._places)

    def read(self, number: int) -> dict[str, Any]:
        """The scenario with this number.

        Raises:
            DataError: It cannot be read.
        """
        name, offset = self._places[number]
        path = self.folder / name
        try:
            with path.open("rb") as store:
                store.seek(offset)
                document: dict[str, Any] = json.loads(store.readline())
        except OSError as error:
            raise DataError(path, f"cannot be read: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise DataError(path, "is not a world; run the command that wrote it again", f"world {number}") from error
        return document


def is_folder(given: object) -> bool:
    """Return whether a name is that of a folder of worlds."""
    return isinstance(given, str | Path) and (Path(given) / INDEX).is_file()


def document_of_folder(given: str | Path) -> dict[str, Any] | None:
    """The scenario that FOLDER/SPLIT/NUMBER names; None where it names none.

    Raises:
        UnknownName: The folder has no world with this number.
    """
    path = Path(given)
    if not path.name.isdigit() or not is_folder(path.parent):
        return None
    worlds = WorldDocuments(path.parent)
    if int(path.name) >= len(worlds):
        raise UnknownName("world", path.name, [f"0 to {len(worlds) - 1}"])
    return worlds.read(int(path.name))
