"""An episode's clock: SimPy's, begun and scheduled with as little work as the semantics allow."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush
from itertools import count
from typing import Any

import simpy
from simpy.events import NORMAL


class Clock(simpy.Environment):  # type: ignore[misc]
    """SimPy's environment at time 0, without the shortcuts to event classes that it makes for itself: an episode is begun more
    often than they pay."""

    def __init__(self) -> None:
        self._now = 0.0
        self._queue: list[Any] = []
        self._eid = count()
        self._active_proc = None


class TimedCallback:
    """What SimPy needs to know of a timeout with one callback: for what ends or happens at a time.

    Args:
        clock: where it is scheduled.
        delay: seconds from now.
        callback: called with this event then.
        value: what the callback wants to know.
    """

    __slots__ = ("_ok", "callbacks", "value")

    def __init__(self, clock: Clock, delay: float, callback: Callable[[TimedCallback], None], value: Any) -> None:
        self.callbacks = (callback,)
        self.value = value
        self._ok = True
        heappush(clock._queue, (clock._now + delay, NORMAL, next(clock._eid), self))
