"""How arrays lie on a GPU, where neighbouring threads read the same of neighbouring episodes at the same moment.

Records lie in *blocks* of 32 episodes, a warp: the words of eight bytes of 32 records alternate, so that a field of 32 episodes
is 256 bytes in a row, where records in one piece would spread it over 32 lines of the cache. A GPU lays out what a thread has
for itself in the same way. Kernels take records from `memory.record_at` and `memory.record_in`, which know both layouts by
their types; on the CPU a record stays in one piece. Arrays of numbers lie column by column. What each episode reads at a place
of its own, such as a candidate's record, stays as it is.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

WARP, WORD = 32, 8  # threads of a warp, bytes of a word


@cache
def in_blocks(kind: np.dtype[Any]) -> np.dtype[Any]:
    """The type of a block of records of some type. Its fields are those of its first record; those of the next one stand a word
    further on."""
    words = -(-kind.itemsize // WORD)
    return _moved(kind, lambda offset: WARP * WORD * (offset // WORD) + offset % WORD, WARP * WORD * words)


@cache
def first_record(block: np.dtype[Any]) -> np.dtype[Any]:
    """The type of a block without what lies behind the last word of its first record."""
    return _moved(block, lambda offset: offset, block.itemsize - (WARP - 1) * WORD)


def _moved(kind: np.dtype[Any], move: Callable[[int], int], size: int) -> np.dtype[Any]:
    """A type of so many bytes with the fields of another, each at another place."""
    formats, offsets = zip(*(field[:2] for field in (kind.fields or {}).values()), strict=True)
    fields = {"names": kind.names, "formats": formats, "offsets": list(map(move, offsets)), "itemsize": size}
    moved = np.dtype(fields, align=True)  # type: ignore[call-overload]
    return np.dtype((np.record, moved)) if kind.type is np.record else moved


def is_block(kind: np.dtype[Any]) -> bool:
    """Return whether a type is that of a block: behind its fields there is room for those of the other records."""
    if kind.fields is None:
        return False
    return kind.itemsize - max(offset + field.itemsize for field, offset, *_ in kind.fields.values()) >= (WARP - 1) * WORD


def by_field(array: NDArray[Any]) -> NDArray[Any]:
    """A copy of an array with a row an episode: of records, in blocks; of numbers, column by column."""
    kind = array.dtype
    if kind.fields is None:
        return np.asfortranarray(array)
    rows, inner, size = len(array), array.shape[1:], kind.itemsize
    words, blocks = -(-size // WORD), -(-rows // WARP)
    padded = np.zeros((blocks * WARP, *inner, words * WORD), np.uint8)
    padded[:rows, ..., :size] = np.ascontiguousarray(array).view(np.uint8).reshape(rows, *inner, size)
    apart = padded.view(np.uint64).reshape(blocks, WARP, *inner, words)
    together = np.ascontiguousarray(np.moveaxis(apart, 1, -1)).reshape(blocks, *inner, words * WARP)
    return together.view(in_blocks(kind)).reshape(blocks, *inner)


def arranged(tree: Any, names: frozenset[str], name: str = "") -> Any:
    """The arrays of a named tuple, and of those in it, with the named ones laid out by field."""
    if isinstance(tree, tuple):
        parts = zip(tree._fields, tree, strict=True)  # type: ignore[attr-defined]
        return type(tree)(*(arranged(part, names, field) for field, part in parts))
    return by_field(tree) if name in names else tree
