"""What kernels take from the processor, in plain Python: for `NUMBA_DISABLE_JIT=1`, where nothing is compiled.

Then a batch plays slowly, gives the same bits, and can be stepped through in a debugger.
"""

from typing import Any

import numpy as np

from costgym.simulators.batch.blocks import WARP, WORD, first_record, is_block
from costgym.simulators.draws import PURPOSES, DrawSource

_source = DrawSource()
_WORD = (1 << 64) - 1
_PCG_MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645


def uniforms(seed: Any, task: Any, row: Any) -> tuple[float, ...]:
    """The four uniforms of a row of an episode's table, counted over all slots."""
    return tuple(_source.flat(int(seed), int(task), 1, int(row), 1)[:PURPOSES])


def next_word(streams: Any, i: Any) -> Any:
    """Advance a PCG64 and draw 64 bits."""
    state, increment = ((int(streams[i, k]) << 64) | int(streams[i, k + 1]) for k in (0, 2))
    state = (state * _PCG_MULTIPLIER + increment) & ((1 << 128) - 1)
    streams[i, 0], streams[i, 1] = state >> 64, state & _WORD
    word, turn = (state >> 64) ^ (state & _WORD), state >> 122
    return np.uint64(((word >> turn) | (word << (-turn & 63))) & _WORD)


def copy_row(target: Any, i: int, source: Any, j: int) -> None:
    """Copy a row of an array into another one's."""
    target[i] = source[j]


def copy_share(target: Any, i: int, source: Any, j: int, lane: int, lanes: int) -> None:
    """Copy a row, which the first of the `lanes` does alone here."""
    if lane == 0:
        target[i] = source[j]


def take_place(counter: Any) -> int:
    """Add one to the only number of an array; returns what it was."""
    counter[0] += 1
    return int(counter[0]) - 1


def record_at(array: Any, i: int) -> Any:
    """The record of episode i."""
    return record_in(array, i)


def record_in(array: Any, i: int, *column: int) -> Any:
    """The record of episode i in a column."""
    kind = array.dtype
    if not is_block(kind):
        return array[(i, *column)]
    block = np.ravel_multi_index((i // WARP, *column), array.shape)
    offset = int(block) * kind.itemsize + i % WARP * WORD
    return np.ndarray(1, first_record(kind), array.reshape(-1).view(np.uint8), offset)[0]


def copy_in(array: Any, i: int, target: int, source: int) -> None:
    """Copy the record of episode i in a column to another one."""
    if is_block(array.dtype):
        words = array.view(np.uint64).reshape(*array.shape, -1, WARP)[i // WARP, ..., i % WARP]
        words[target] = words[source]
    else:
        array[i, target] = array[i, source]


def clear_row(target: Any, i: int) -> None:
    """Set a row of an array to zero, or in an array of blocks what is of episode i."""
    if is_block(target.dtype):
        target.view(np.uint64).reshape(len(target), -1, WARP)[i // WARP, :, i % WARP] = 0
    else:
        target[i] = np.zeros((), target.dtype)


def prefetch(array: Any, i: int, offset: int) -> None:
    """Do nothing: Python has no say in what the cache holds."""


def lowest_bit(word: Any) -> int:
    """The index of the lowest bit that is set."""
    return (int(word) & -int(word)).bit_length() - 1


def bound_arguments(bound: Any) -> Any:
    """The tuple that a `BoundArguments` holds."""
    return bound.content
