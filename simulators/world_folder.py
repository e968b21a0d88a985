"""Many worlds in a folder, drawn one at a time, so that memory stays flat however many there are."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, overload

from .forge.folder import WorldDocuments
from .scenario import Scenario, parse_scenario

KEPT = 8
"""Worlds that are kept once they are read."""


class WorldFolder(Sequence[Scenario]):
    """The worlds of a split of a folder that `costgym forge` wrote.

    Args:
        folder: The split's folder, which holds `index.json`.

    Raises:
        DataError: The index is missing or is not one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self._documents = folder, WorldDocuments(folder)
        self.most_candidates = self._documents.most_candidates
        self._read = lru_cache(maxsize=KEPT)(lambda number: parse_scenario(self._documents.read(number), folder))

    def __len__(self) -> int:
        return len(self._documents)

    @overload
    def __getitem__(self, number: int) -> Scenario: ...
    @overload
    def __getitem__(self, number: slice) -> list[Scenario]: ...
    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[each] for each in range(*number.indices(len(self)))]
        place = number + len(self) if number < 0 else number
        if not 0 <= place < len(self):
            raise IndexError(f"world {number} of {len(self)}")
        return self._read(place)

    def __reduce__(self) -> tuple[Any, ...]:
        return WorldFolder, (self.folder,)
