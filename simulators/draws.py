"""Common random numbers: all chance in an episode is a pure function of (seed, task, tool, k-th call, purpose).

An episode's uniforms are a table ``u[k, slot, purpose]``, filled by a counter-based generator (Philox) whose key is
``(seed, task)`` and whose counter is the place in the table. Row 0 belongs to the episode as a whole, row k to the k-th
executed call of each tool; the last slot belongs to the world (bursts, the judge). So an agent's choices never change
another tool's luck, and two agents on one seed meet the same world.

What is drawn once per world (a tool's reliability, its price) comes from `stable_generator`, keyed by names.
"""

from __future__ import annotations

import hashlib
import threading
from typing import Any

import numpy as np

OUTCOME, KIND, DURATION, CONTENT = range(4)
"""Purposes within a row. In row 0: the latent state, the usual failure, the judge (world slot only), spare."""

PURPOSES = 4
_WORD = (1 << 64) - 1


class DrawSource(threading.local):
    """A reusable generator that jumps to any place of any episode's table.

    A jump and the draw after it are two steps, so each thread has a generator of its own: threads may play episodes of one
    world, each with the luck that it has alone.
    """

    def __init__(self) -> None:
        self._bits = np.random.Philox(key=0)
        self._generator = np.random.Generator(self._bits)
        self._state = self._bits.state

    def __reduce__(self) -> tuple[Any, ...]:
        return DrawSource, ()  # the generator's place means nothing: every draw begins with a jump

    def rows(self, seed: int, task: int, slots: int, first: int, count: int) -> list[list[list[float]]]:
        """Rows ``first .. first + count - 1`` of an episode's table, shape (count, slots, PURPOSES), in [0, 1)."""
        flat = np.array(self.flat(seed, task, slots, first, count))
        table: list[list[list[float]]] = flat.reshape(count, slots, PURPOSES).tolist()
        return table

    def flat(self, seed: int, task: int, slots: int, first: int, count: int) -> list[float]:
        """The rows of `rows` one after the other, as one flat list."""
        state = self._state
        inner = state["state"]
        inner["key"][0], inner["key"][1] = seed & _WORD, task & _WORD
        inner["counter"][:] = 0
        inner["counter"][0] = first * slots  # one Philox block of four words per (k, slot)
        state["buffer_pos"] = PURPOSES
        self._bits.state = state
        values: list[float] = self._generator.random(count * slots * PURPOSES).tolist()
        return values


class Draws:
    """The uniforms of one episode, drawn as far as they are needed.

    Args:
        source: The generator to draw with; episodes share it.
        seed: The episode's seed.
        task: The task's number in its task set.
        tools: Number of tools in the episode; slot `tools` is the world's own.

    Attributes:
        values: The uniforms drawn so far, as one flat list.
    """

    __slots__ = ("_ahead", "_chunk", "_source", "seed", "slots", "task", "values")

    def __init__(self, source: DrawSource, seed: int, task: int, tools: int) -> None:
        self._source, self.seed, self.task = source, seed, task
        self.slots = tools + 1
        self._chunk = max(2, 64 // self.slots)
        self.values = source.flat(seed, task, self.slots, 0, self._chunk)
        self._ahead: tuple[int, list[float]] = 0, []

    def at(self, k: int, slot: int) -> list[float]:
        """The uniforms of the k-th call in a slot, one per purpose."""
        place = (k * self.slots + slot) * PURPOSES
        values = self.values
        while place >= len(values):
            known = len(values) // (self.slots * PURPOSES)
            values += self._source.flat(self.seed, self.task, self.slots, known, self._chunk)
        return values[place : place + PURPOSES]

    def beyond(self, k: int, slot: int) -> list[float]:
        """The same for rows that may lie far ahead and are not asked for again: they are not kept."""
        first, values = self._ahead
        place = ((k - first) * self.slots + slot) * PURPOSES
        if not 0 <= place < len(values):
            values = self._source.flat(self.seed, self.task, self.slots, k, self._chunk)
            self._ahead, place = (k, values), slot * PURPOSES
        return values[place : place + PURPOSES]


def stable_generator(seed: int, *names: object) -> np.random.Generator:
    """A generator that depends on a seed and on names alone. It is the same in every process, whatever else is drawn."""
    digest = hashlib.sha256("\x1f".join([str(seed), *map(str, names)]).encode()).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "little")))


def stable_integer(seed: int, *names: object) -> int:
    """A 64-bit integer that depends on a seed and on names alone."""
    digest = hashlib.sha256("\x1f".join([str(seed), *map(str, names)]).encode()).digest()
    return int.from_bytes(digest[:8], "little")
