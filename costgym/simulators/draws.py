"""Common random numbers: all chance in an episode is a pure function of (seed, task, tool, k-th call, purpose).

An episode's uniforms are a table ``u[k, slot, purpose]``, filled by a counter-based generator (Philox) whose key is
``(seed, task)`` and whose counter is the place in the table. Row 0 belongs to the episode as a whole, row k to the k-th
executed call of each tool; the last slot belongs to the world (bursts, the judge). So an agent's choices never change
another tool's luck, and two agents on one seed meet the same world.

What is drawn once per world (a tool's reliability, its price) comes from `stable_generator`, keyed by names.
"""

import hashlib
import threading
from array import array
from decimal import Context, Decimal
from math import frexp
from typing import Any

import numpy as np

OUTCOME, KIND, DURATION, CONTENT = range(4)
"""Purposes within a row. In row 0: the latent state, the usual failure, the judge (world slot only), spare."""

PURPOSES = 4

SQRT_HALF = 0.7071067811865476
LN2_HIGH, LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10  # their sum is log(2), and a power of 2 times the first is exact
THIRD, SIXTH, SEVENTH = 0.3333333333333333, 0.16666666666666666, 0.14285714285714285
LOGS = tuple(float((Decimal(max(k, 91)) / 128).ln(Context(prec=28))) for k in range(182))  # ``log(k / 128)`` for k from 91 on


def log(value: float) -> float:
    """The natural logarithm of a finite number above 0, by additions, multiplications and divisions alone.

    So it has the same bits everywhere, in kernels on a GPU too, while those of `math.log` depend on the machine's C library. It
    is off by at most two units in the last place where the result is not near 0.
    """
    part, power = frexp(value)
    if part < SQRT_HALF:
        part += part
        power -= 1
    near = int(part * 128.0 + 0.5)
    centre = near * 0.0078125
    ratio = (part - centre) / (part + centre)
    square = ratio * ratio
    series = (ratio + ratio) * (1.0 + square * (THIRD + square * (0.2 + square * SEVENTH)))
    return power * LN2_HIGH + (LOGS[near] + (power * LN2_LOW + series))


_WORD = (1 << 64) - 1
EIGHTHS = tuple(float((Decimal(-k) / 8).exp(Context(prec=28))) for k in range(257))


def decay(value: float) -> float:
    """``exp(-value)`` of a value from 0 on, by additions and multiplications alone, so with the same bits everywhere. It
    is off by less than 1e-10 of the result, and 0 above 32."""
    if value > 32.0:
        return 0.0
    near = int(value * 8.0 + 0.5)
    rest = near * 0.125 - value
    series = 1.0 + rest * (1.0 + rest * (0.5 + rest * (SIXTH + rest * (SIXTH / 4.0 + rest * (SIXTH / 20.0)))))
    return EIGHTHS[near] * series


class DrawSource(threading.local):
    """A reusable generator that jumps to any place of any episode's table.

    A jump and the draw after it are two steps, so each thread has a generator of its own: threads may play episodes of one
    world, each with the luck that it has alone.
    """

    def __init__(self) -> None:
        self._bits = np.random.Philox(key=0)
        self._generator = np.random.Generator(self._bits)
        self._random = self._generator.random
        self._state: Any = self._bits.state

    def __reduce__(self) -> tuple[Any, ...]:
        return DrawSource, ()  # the generator's place means nothing: every draw begins with a jump

    def rows(self, seed: int, task: int, slots: int, first: int, count: int) -> list[list[list[float]]]:
        """Rows ``first .. first + count - 1`` of an episode's table, shape (count, slots, PURPOSES), in [0, 1)."""
        flat = np.array(self.flat(seed, task, slots, first, count))
        table: list[list[list[float]]] = flat.reshape(count, slots, PURPOSES).tolist()
        return table

    def flat(self, seed: int, task: int, slots: int, first: int, count: int) -> "array[float]":
        """The rows of `rows` one after the other, as one flat array."""
        # one Philox block of four words per (k, slot)
        self._go(seed & _WORD, task & _WORD, first * slots)
        return array("d", self._random(count * slots * PURPOSES).tobytes())

    def keyed(self, key: int, first: int, count: int) -> list[float]:
        """So many uniforms of a generator with a key of 128 bits, from the block `first` of `PURPOSES` on."""
        self._go(key & _WORD, key >> 64, first)
        numbers: list[float] = self._random(count).tolist()
        return numbers

    def at_start(self, key: int) -> np.random.Generator:
        """The generator at the start of a key of 128 bits, until this thread draws from the source again."""
        self._go(key & _WORD, key >> 64, 0)
        return self._generator

    def _go(self, low: int, high: int, block: int) -> None:
        state, inner = self._state, self._state["state"]
        # written into the generator's own state: a new generator for each jump would cost far more than the draw
        inner["key"][0], inner["key"][1] = low, high
        inner["counter"][:] = 0
        inner["counter"][0] = block
        state["buffer_pos"] = PURPOSES  # nothing is left of the block before, so the next draw makes a new one
        self._bits.state = state


class Draws:
    """The uniforms of one episode, drawn as far as needed: `values`, one after the other; slot `tools` is the world's."""

    __slots__ = ("_ahead", "_chunk", "_source", "seed", "slots", "task", "values")

    def __init__(self, source: DrawSource, seed: int, task: int, tools: int) -> None:
        self._source, self.seed, self.task = source, seed, task
        self.slots = tools + 1
        # one jump of the generator costs as much as some hundred uniforms, and most episodes call a tool once or twice
        self._chunk = max(2, 40 // self.slots)
        self.values = source.flat(seed, task, self.slots, 0, self._chunk)
        self._ahead = 0, array("d")

    def at(self, k: int, slot: int) -> list[float]:
        """The uniforms of the k-th call in a slot, one per purpose."""
        # row by row, so that drawing further never moves what was drawn
        block = (k * self.slots + slot) * PURPOSES
        values = self.values
        while block >= len(values):
            known = len(values) // (self.slots * PURPOSES)
            values += self._source.flat(self.seed, self.task, self.slots, known, self._chunk)
        return values[block : block + PURPOSES].tolist()

    def beyond(self, k: int, slot: int) -> list[float]:
        """The same for rows that may lie far ahead and are not asked for again: they are not kept."""
        first, values = self._ahead
        block = ((k - first) * self.slots + slot) * PURPOSES
        if not 0 <= block < len(values):
            values = self._source.flat(self.seed, self.task, self.slots, k, self._chunk)
            self._ahead, block = (k, values), slot * PURPOSES
        return values[block : block + PURPOSES].tolist()


def stable_generator(seed: int, *names: object) -> np.random.Generator:
    """A generator that depends on a seed and on names alone. It is the same in every process, whatever else is drawn."""
    return np.random.Generator(np.random.Philox(key=_key(seed, names)))


def _key(seed: int, names: tuple[object, ...]) -> int:
    digest = hashlib.sha256("\x1f".join([str(seed), *map(str, names)]).encode()).digest()
    return int.from_bytes(digest[:16], "little")


_shared = DrawSource()


def brief_generator(seed: int, *names: object) -> np.random.Generator:
    """`stable_generator` without the cost of making it, to be used before this thread draws anything else."""
    return _shared.at_start(_key(seed, names))


def stable_uniforms(count: int, first: int, seed: int, *names: object) -> list[float]:
    """`count` uniforms of `stable_generator` from the `first` one on, a multiple of 4, without the cost of making it."""
    return _shared.keyed(_key(seed, names), first // PURPOSES, count)


def stable_integer(seed: int, *names: object) -> int:
    """A 64-bit integer that depends on a seed and on names alone."""
    digest = hashlib.sha256("\x1f".join([str(seed), *map(str, names)]).encode()).digest()
    return int.from_bytes(digest[:8], "little")
