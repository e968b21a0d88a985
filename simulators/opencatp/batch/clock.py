"""`running.RunningPlan`, compiled: the calls of N growing plans on N clocks.

Each call has at most one event to come, so a clock's agenda is one place per tool. Events at the same time happen in the
order in which they were scheduled, as on the event-driven clock.
"""

# mypy: disable-error-code="misc,untyped-decorator,no-any-return"

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...batch.rng import compiled, inlined
from . import kernels as plans

_N = plans.N_TOOLS
_SLOT, _MEMORY, _LOADED, _ENDED, _FREED, _LEFT = range(1, 7)
"""Events: a slot is granted, memory is granted, the tool is loaded, it has ended, its memory is free, its slot is free."""

CLOCK = np.dtype(
    [
        ("memory", "i8"), ("number", "i4"), ("started", "i4"), ("ended", "i4"), ("agenda", "i4"),
        ("running", "i4"), ("news", "i4"),
        ("slot_head", "i1"), ("slot_tail", "i1"), ("memory_head", "i1"), ("memory_tail", "i1"),
    ],
    align=True,
)  # fmt: skip
"""A clock: the memory left, the number of events scheduled, the tools that have started, that have ended and that have an event
to come (as bits), the calls that hold a slot, the ends not yet returned, and the two queues."""


class Machine(NamedTuple):
    """The machine that the calls run on.

    Attributes:
        slots: Number of tools that may run at once; 0 for any number.
        needs: (4, 10) bytes of GPU memory by level and tool; all zero where there is enough.
        memory: (4,) bytes of GPU memory, by level.
        load_s: (10,) seconds to load a tool first.
        fee: Flat part of a run's price, USD.
    """

    slots: int
    needs: NDArray[np.int64]
    memory: NDArray[np.int64]
    load_s: NDArray[np.float64]
    fee: float


class Clocks(NamedTuple):
    """N clocks; arrays by clock and tool, or by clock and place in a queue.

    Attributes:
        clocks: (N,) `CLOCK`.
        at_s, number, event: (N, 10) the next event of each tool: its time, its number among those scheduled, and its kind.
        start_s: (N, 10) time at which each tool began to run.
        slot_queue, memory_queue: (N, 10) tools that wait, first come first served.
    """

    clocks: NDArray[Any]
    at_s: NDArray[np.float64]
    number: NDArray[np.int32]
    event: NDArray[np.int8]
    start_s: NDArray[np.float64]
    slot_queue: NDArray[np.int8]
    memory_queue: NDArray[np.int8]


def make_clocks(count: int) -> Clocks:
    """Make clocks before the start of any episode."""
    places = (count, _N)
    return Clocks(
        clocks=np.zeros(count, CLOCK),
        at_s=np.zeros(places),
        number=np.zeros(places, np.int32),
        event=np.zeros(places, np.int8),
        start_s=np.zeros(places),
        slot_queue=np.zeros(places, np.int8),
        memory_queue=np.zeros(places, np.int8),
    )


@inlined
def begin(machine: Any, clocks: Any, i: int, level: int) -> None:
    """Set a clock to the start of an episode."""
    c = clocks.clocks[i]
    c.memory = machine.memory[level]
    c.number = c.started = c.ended = c.agenda = c.running = c.news = 0
    c.slot_head = c.slot_tail = c.memory_head = c.memory_tail = 0


@inlined
def _put(clocks: Any, i: int, tool: int, event: int, at_s: float) -> None:
    c = clocks.clocks[i]
    clocks.at_s[i, tool], clocks.event[i, tool], clocks.number[i, tool] = at_s, event, c.number
    c.number += 1
    c.agenda |= 1 << tool


@inlined
def _next(clocks: Any, i: int) -> int:
    """The tool whose event comes first, or -1 where none is to come."""
    agenda = np.int64(clocks.clocks[i].agenda)
    first = -1
    for tool in range(_N):
        if (agenda >> tool) & 1:
            at = clocks.at_s[i, tool]
            if (
                first < 0
                or at < clocks.at_s[i, first]
                or (at == clocks.at_s[i, first] and clocks.number[i, tool] < clocks.number[i, first])
            ):
                first = tool
    return first


@inlined
def _grant_slot(machine: Any, clocks: Any, i: int, now_s: float) -> None:
    """Grant a free slot to the first tool that waits, once for each request and each release."""
    c = clocks.clocks[i]
    if c.slot_head < c.slot_tail and c.running < machine.slots:
        tool = np.int64(clocks.slot_queue[i, c.slot_head])
        c.slot_head += 1
        c.running += 1
        _put(clocks, i, tool, _SLOT, now_s)


@inlined
def _grant_memory(machine: Any, clocks: Any, i: int, level: int, now_s: float) -> None:
    """Grant memory to the tools that wait, in order, as far as it goes; none overtakes another."""
    c = clocks.clocks[i]
    while c.memory_head < c.memory_tail:
        tool = np.int64(clocks.memory_queue[i, c.memory_head])
        if c.memory < machine.needs[level, tool]:
            break
        c.memory -= machine.needs[level, tool]
        c.memory_head += 1
        _put(clocks, i, tool, _MEMORY, now_s)


@compiled
def _go_on(tables: Any, machine: Any, clocks: Any, e: Any, i: int, tool: int, event: int) -> None:
    """Process an event of a tool; 0 is the call itself."""
    c = clocks.clocks[i]
    level, now_s = np.int64(e.level), e.seconds
    needs = machine.needs[level, tool]
    if event == 0:
        if machine.slots > 0:
            clocks.slot_queue[i, c.slot_tail] = tool
            c.slot_tail += 1
            _grant_slot(machine, clocks, i, now_s)
            return
        event = _SLOT
    if event == _SLOT:
        if needs > 0:
            clocks.memory_queue[i, c.memory_tail] = tool
            c.memory_tail += 1
            _grant_memory(machine, clocks, i, level, now_s)
            return
        event = _MEMORY
    if event == _MEMORY:
        if machine.load_s[tool] > 0.0:
            _put(clocks, i, tool, _LOADED, now_s + machine.load_s[tool])
            return
        event = _LOADED
    if event == _LOADED:
        c.started |= 1 << tool
        clocks.start_s[i, tool] = now_s
        _put(clocks, i, tool, _ENDED, now_s + tables.seconds[level, tool])
        return
    if event == _ENDED:
        c.ended |= 1 << tool
        c.news += 1
        e.price += tables.price[level, tool]
        if needs > 0:
            c.memory += needs
            _put(clocks, i, tool, _FREED, now_s)
            return
    elif event == _FREED:
        _grant_memory(machine, clocks, i, level, now_s)
    else:
        _grant_slot(machine, clocks, i, now_s)
        return
    if machine.slots > 0:
        c.running -= 1
        _put(clocks, i, tool, _LEFT, now_s)


@inlined
def _step(tables: Any, machine: Any, clocks: Any, e: Any, i: int, tool: int) -> None:
    e.seconds = clocks.at_s[i, tool]
    clocks.clocks[i].agenda &= ~(1 << tool)
    _go_on(tables, machine, clocks, e, i, tool, np.int64(clocks.event[i, tool]))


@inlined
def _settle(tables: Any, machine: Any, clocks: Any, e: Any, i: int) -> None:
    while True:
        tool = _next(clocks, i)
        if tool < 0 or clocks.at_s[i, tool] > e.seconds:
            break
        _step(tables, machine, clocks, e, i, tool)


@inlined
def submit(tables: Any, machine: Any, clocks: Any, e: Any, i: int, tool: int) -> None:
    """Call a tool, and start everything that can start at this moment.

    Args:
        e: The episode: `level` is read, `price` and `seconds` are brought up to date.
    """
    _go_on(tables, machine, clocks, e, i, tool, 0)
    _settle(tables, machine, clocks, e, i)


@inlined
def wait(tables: Any, machine: Any, clocks: Any, e: Any, i: int) -> None:
    """Go to the next end of a call. No time passes where nothing is in flight."""
    c = clocks.clocks[i]
    while c.news == 0 and c.ended != e.used:
        tool = _next(clocks, i)
        if tool < 0:
            break
        _step(tables, machine, clocks, e, i, tool)
    _settle(tables, machine, clocks, e, i)
    c.news = 0


@inlined
def finish(tables: Any, machine: Any, clocks: Any, e: Any, i: int, order: Any) -> None:
    """Cut off the running calls and charge each for the part that ran.

    Args:
        order: (N, 10) the tools called, in order, the first ``e.calls`` of them.
    """
    c = clocks.clocks[i]
    cut = c.started & ~c.ended
    for k in range(e.calls):
        tool = np.int64(order[i, k])
        if (cut >> tool) & 1:
            full_s, price = tables.seconds[e.level, tool], tables.price[e.level, tool]
            share = (e.seconds - clocks.start_s[i, tool]) / full_s if full_s > 0.0 else 1.0
            e.price += machine.fee + (price - machine.fee) * share
