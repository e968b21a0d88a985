"""What kernels take from the processor, in plain Python: for `NUMBA_DISABLE_JIT=1`, where nothing is compiled.

Then a batch plays slowly, gives the same bits, and can be stepped through in a debugger.
"""

from typing import Any

import numpy as np

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


def clear_row(target: Any, i: int) -> None:
    """Set a row of an array to zero."""
    target[i] = np.zeros((), target.dtype)


def prefetch(array: Any, i: int, offset: int) -> None:
    """Do nothing: Python has no say in what the cache holds."""


def lowest_bit(word: Any) -> int:
    """The index of the lowest bit that is set."""
    return (int(word) & -int(word)).bit_length() - 1


def bound_arguments(bound: Any) -> Any:
    """The tuple that a `BoundArguments` holds."""
    return bound.content
