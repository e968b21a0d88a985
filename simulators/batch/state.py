"""N episodes of one world at once, equal to the event-driven world call by call.

`Batch` keeps the episodes as arrays of records, one row an episode, so that all an action touches lies together in memory.
Its kernels are compiled by Numba (extra `train`). Nothing is drawn in advance: a call's luck is computed from its
place in the episode's table when the call starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigError
from ..ledger import RESOURCES, Budget, Enforcement
from ..world import World
from . import kernels
from .rng import compiled
from .tables import Tables, add_rows, make_rules, make_tables

EPISODE = np.dtype(
    [(name, np.float64) for name in ("now", "price", "reserved", "gpu_used", "next_at")]
    + [(name, np.float64) for name in ("burst_begin", "burst_end", "burst_before", "last_price", "last_now")]
    + [(name, np.uint64) for name in ("seed", "known", "seen_known", "seen_ready")]
    + [(name, np.int32) for name in ("task", "steps", "order", "next", "calls", "attempts", "in_flight", "records")]
    + [
        (name, np.int32)
        for name in ("waiting", "news", "news_at", "idle", "cold", "burst", "tokens", "last_calls", "last_tokens")
    ]
    + [("log_now", np.float32), ("epoch", np.int16), ("exceeded", np.int8), ("status", np.int8)]
    + [(name, np.bool_) for name in ("over", "strict", "judged", "ended", "told", "priced")],
    align=True,
)
"""One episode. `records` counts the calls in flight, `waiting` those that wait for a slot or for memory, `cold` those of tools
that start cold, and `news` the completions and events that no `wait` has returned yet. A view keeps `steps`, `status`, `ended`,
`told`, `priced`, and fields that begin with ``seen_`` and ``last_``. At the start all fields are zero but `seed`, `task` and
`next_at`."""

SLOT_STATE = np.dtype(
    [(name, np.int32) for name in ("count", "started", "busy")]
    + [(name, np.int16) for name in ("window_at", "window", "seen_epoch")]
    + [(name, np.int8) for name in ("chain", "usual", "last_ok")],
    align=True,
)
"""One candidate in an episode: its calls admitted, started and running, the ring of its rate window, and its latent chain."""

CALL = np.dtype(
    [(name, np.float64) for name in ("at",)]
    + [("order", np.int32)]
    + [(name, np.int16) for name in ("submit_epoch", "start_epoch", "slot")]
    + [(name, np.int8) for name in ("status", "need")],
    align=True,
)
"""A call in flight: the time of its end, and its place among simultaneous events (-1 while it waits to start). An episode's
calls stand in the order of submission."""

_FIRST_ROOM = 16


class State(NamedTuple):
    """The arrays of N episodes.

    Attributes:
        episodes: (N,) `EPISODE`.
        slots: (N, M) `SLOT_STATE`.
        calls: (N, F) `CALL`.
        money: (N, F, 2) price and start of billing of calls in flight under pay-per-use pricing, else (1, 1, 2).
        windows: (N, W) times of admitted calls, a ring per rate-limited candidate.
        idle_at, idle_slot: (N, I) idle instances in the order in which they became idle.
        news: (N, F + E) ring of completions and events that no `wait` has returned yet.
    """

    episodes: NDArray[np.void]
    slots: NDArray[np.void]
    calls: NDArray[np.void]
    money: NDArray[np.float64]
    windows: NDArray[np.float64]
    idle_at: NDArray[np.float64]
    idle_slot: NDArray[np.int16]
    news: NDArray[np.int32]


class Batch:
    """N episodes as arrays.

    Args:
        world: The world that they play in.
        numbers: The tasks that may be played; an episode names its task by the place in this list, to which `add` adds.
        count: N.
        budget, enforcement: See `World.episode`; they hold for all episodes.
        columns: Number of candidates that can be called; None for all.
        most: Most calls that an episode submits, where that is known; it bounds the memory.
        at_once: Most calls that are in flight at once or not reported yet, where that is known.

    Raises:
        MissingExtra: Numba is not installed.
        ConfigError: The world is too large for the tables.
    """

    def __init__(
        self,
        world: World,
        numbers: Sequence[int],
        count: int,
        budget: Budget | None = None,
        enforcement: Enforcement = "terminate",
        columns: int | None = None,
        most: int | None = None,
        at_once: int | None = None,
    ) -> None:
        self.world, self.count, self.most = world, count, most
        self.numbers = list(numbers)
        self.rules = make_rules(world, budget or Budget(), enforcement)
        self.columns = columns
        self.tables: Tables = make_tables(world, self.numbers, columns)
        slots = self.tables.slots
        width = slots.shape[1]
        if width > np.iinfo(np.int16).max or int(slots["rate_limit"].max(initial=0)) > np.iinfo(np.int16).max:
            raise ConfigError("batch", f"expected at most {np.iinfo(np.int16).max} candidates and calls a window")
        self._cold = bool((slots["cold_start_s"] > 0).any())
        room = _FIRST_ROOM if at_once is None else at_once
        self.state = State(
            episodes=np.zeros(count, EPISODE),
            slots=np.zeros((count, width), SLOT_STATE),
            calls=np.zeros((count, room), CALL),
            money=np.zeros((count, room, 2) if self.rules.faas else (1, 1, 2)),
            windows=np.zeros((count, max(1, int(slots["rate_limit"].sum(axis=1).max(initial=0))))),
            idle_at=np.zeros((count, _FIRST_ROOM if self._cold else 1)),
            idle_slot=np.zeros((count, _FIRST_ROOM if self._cold else 1), np.int16),
            news=np.zeros((count, room + self.tables.event_at.shape[1]), np.int32),
        )

    def row(self, number: int) -> int:
        """A task's row in the tables, which is added where it is missing."""
        if number not in self.numbers:
            self.add([number])
        return self.numbers.index(number)

    def add(self, numbers: Sequence[int]) -> None:
        """Add rows for more tasks at the end."""
        columns = self.tables.slots.shape[1] if self.columns is None else self.columns
        more = make_tables(self.world, numbers, columns)
        self.tables, state = add_rows(self.tables, len(self.numbers), more), self.state
        self.numbers += numbers
        self._cold = self._cold or bool((more.slots["cold_start_s"] > 0).any())
        news = state.calls.shape[1] + self.tables.event_at.shape[1]
        self.state = state._replace(
            windows=_wider(state.windows, int(more.slots["rate_limit"].sum(axis=1).max(initial=0))),
            news=_wider_ring(state.news, news, state.episodes) if news > state.news.shape[1] else state.news,
            idle_at=_wider(state.idle_at, _FIRST_ROOM if self._cold else 1),
            idle_slot=_wider(state.idle_slot, _FIRST_ROOM if self._cold else 1),
        )

    @property
    def nbytes(self) -> int:
        """Size of the episodes' arrays in bytes, without the shared tables."""
        return sum(array.nbytes for array in self.state)

    def make_room(self, records: int, idle: int) -> None:
        """Widen the arrays before the next action, where the fullest episode could outgrow them.

        Args:
            records: The largest number of calls that are in flight or that no `wait` has returned yet.
            idle: The largest number of instances that started cold and are running or idle.
        """
        state = self.state
        room = state.calls.shape[1]
        if records >= room:
            room = self._grown(room, records)
            state = state._replace(
                calls=_wider(state.calls, room),
                money=_wider(state.money, room) if self.rules.faas else state.money,
                news=_wider_ring(state.news, room + self.tables.event_at.shape[1], state.episodes),
            )
        room = state.idle_at.shape[1]
        if self._cold and idle >= room:
            room = self._grown(room, idle)
            state = state._replace(idle_at=_wider(state.idle_at, room), idle_slot=_wider(state.idle_slot, room))
        self.state = state

    def _grown(self, room: int, used: int) -> int:
        wide = max(room, used) * 3 // 2 + 1
        return wide if self.most is None or used > self.most else min(wide, self.most + 1)

    # -- actions -----------------------------------------------------------------------------------------------------------

    def begin(self, rows: Any, seeds: Any, where: Any = None) -> None:
        """Start episodes afresh.

        Args:
            rows: (N,) rows of their tasks in the tables.
            seeds: (N,) their seeds, taken modulo 2**64.
            where: (N,) bool; None for all.
        """
        seeds = np.array([int(seed) & ((1 << 64) - 1) for seed in np.broadcast_to(seeds, self.count).tolist()], np.uint64)
        rows = np.broadcast_to(np.asarray(rows, np.int64), self.count)
        _begin(self.tables, self.rules, self.state, np.ascontiguousarray(rows), seeds, self._where(where))

    def submit(self, slots: Any, where: Any = None) -> NDArray[np.int64]:
        """Start a call in each episode.

        Args:
            slots: (N,) candidates; one that is not on offer is an unknown tool.

        Returns:
            (N,) status of the refusal, or -1 where the call is on its way.
        """
        return self._act(0, np.broadcast_to(np.asarray(slots, np.int64), self.count), where)

    def wait(self, where: Any = None) -> NDArray[np.int64]:
        """Go to the next completion or visible event of each episode.

        Returns:
            (N,) slot * 64 + status, -1 - the event's index, or `kernels.NOTHING`.
        """
        return self._act(1, np.zeros(self.count, np.int64), where)

    def finish(self, where: Any = None) -> None:
        """End with an answer that holds every fact found so far."""
        self._act(2, np.zeros(self.count, np.int64), where)

    def _act(self, kind: int, slots: NDArray[np.int64], where: Any) -> NDArray[np.int64]:
        chosen = self._where(where)
        if (self.state.episodes["over"] & chosen).any():
            from ..errors import EpisodeOver

            raise EpisodeOver("an episode has ended; begin a new one before the next action")
        out = np.zeros(self.count, np.int64)
        records, idle = _act_all(self.tables, self.rules, self.state, kind, np.ascontiguousarray(slots), chosen, out)
        self.make_room(records, idle)
        return out

    def _where(self, where: Any) -> NDArray[np.bool_]:
        return np.ones(self.count, np.bool_) if where is None else np.ascontiguousarray(where, np.bool_)

    # -- views -------------------------------------------------------------------------------------------------------------

    def exceeded(self) -> list[str | None]:
        """The limit that each episode passed, or None."""
        return [RESOURCES[int(code) - 1] if code else None for code in self.state.episodes["exceeded"]]


def _wider(array: NDArray[Any], columns: int) -> NDArray[Any]:
    if columns <= array.shape[1]:
        return array
    wide = np.zeros((array.shape[0], columns, *array.shape[2:]), array.dtype)
    wide[:, : array.shape[1]] = array
    return wide


def _wider_ring(ring: NDArray[np.int32], columns: int, episodes: NDArray[np.void]) -> NDArray[np.int32]:
    """A wider ring with every episode's first entry in front."""
    size = ring.shape[1]
    wide = np.zeros((ring.shape[0], columns), ring.dtype)
    places = (episodes["news_at"][:, None] + np.arange(size)) % size
    wide[:, :size] = np.take_along_axis(ring, places, axis=1)
    episodes["news_at"] = 0
    return wide


@compiled
def _begin(tables: Any, rules: Any, state: Any, rows: Any, seeds: Any, where: Any) -> None:
    for i in range(rows.size):
        if where[i]:
            kernels.begin(tables, rules, state, i, rows[i], seeds[i])


@compiled
def _act_all(tables: Any, rules: Any, state: Any, kind: int, slots: Any, where: Any, out: Any) -> Any:
    records, idle = 0, 0
    for i in range(slots.size):
        e = state.episodes[i]
        if where[i]:
            if kind == 1:
                out[i] = kernels.wait(tables, rules, state, i)
            elif kind == 2:
                kernels.finish(tables, rules, state, i)
            elif 0 <= slots[i] < min(tables.slot_count[e.task], state.slots.shape[1]):
                out[i] = kernels.submit(tables, rules, state, i, slots[i])
            else:
                out[i] = kernels.UNKNOWN_TOOL
                kernels.refuse(tables, rules, state, i)
        records = max(records, e.in_flight + e.news)
        idle = max(idle, e.cold + e.idle)
    return records, idle
