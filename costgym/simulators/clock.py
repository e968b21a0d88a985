"""The clock of an episode: SimPy's environment, and the three things that SimPy has no public way to do."""

from heapq import heapify
from typing import Any

import simpy


def now_of(episode: Any) -> float:
    """An episode's time; SimPy's own property is one more call, and rules read it several times a step."""
    seconds: float = episode.clock._now
    return seconds


class Clock(simpy.Environment):  # type: ignore[misc]
    """A SimPy environment at time 0, whose events can be taken back.

    SimPy never removes an event from its queue. What is private to it is used in this module alone, and its version is pinned.
    """

    def __init__(self) -> None:
        super().__init__(initial_time=0.0)

    @property
    def is_idle(self) -> bool:
        """Nothing is to happen."""
        return not self._queue

    def jump(self, seconds: float) -> None:
        """Let time pass in which nothing happens, without an event, which would take a microsecond."""
        self._now += seconds

    def discard(self, event: Any) -> None:
        """Take back an event that has not happened."""
        index = next(index for index, entry in enumerate(self._queue) if entry[-1] is event)
        # order by time and number is total, so a heap of the other entries hands them out as before
        del self._queue[index]
        heapify(self._queue)

    def clear(self) -> None:
        """Take back everything that has not happened; callbacks hold on to an episode."""
        self._queue.clear()
