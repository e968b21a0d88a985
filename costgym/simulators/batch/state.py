"""N episodes of one world at once, by the rules of one episode, compiled.

`Batch` keeps the episodes as arrays of records, one row an episode, so that all an action touches lies together in memory.
Its kernels are compiled by Numba (extra `train`). Nothing is drawn in advance: a call's luck is computed from its
place in the episode's table when the call starts.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costgym.simulators.batch import kernels
from costgym.simulators.batch.memory import record_at, record_type
from costgym.simulators.batch.rng import compiled
from costgym.simulators.batch.tables import Tables, add_rows, batch_rules, make_tables, replaced
from costgym.simulators.errors import ConfigError, EpisodeOver
from costgym.simulators.ledger import RESOURCES, Budget, Enforcement
from costgym.simulators.world import World

EPISODE = record_type(
    [(name, np.float64) for name in ("now", "price", "reserved")]
    + [(name, np.uint64) for name in ("seed", "known", "seen_known", "seen_rows")]
    + [(name, np.int32) for name in ("task", "steps", "order", "calls", "tokens")]
    + [("log_now", np.float32)]
    + [(name, np.int16) for name in ("next", "records", "waiting", "news", "news_at", "idle", "epoch")]
    + [("exceeded", np.int8), ("status", np.int8), ("seen_ready", np.uint8)]
    + [(name, np.bool_) for name in ("over", "strict", "judged", "ended", "needs_changed", "priced")]
)
"""One episode. `records` counts the calls in flight, `waiting` those of them that wait for a slot or for memory, `next` is
the place of the one that ends first (-1 for none), `news` counts the completions and events that no `wait` has returned
yet. A view keeps `steps`, `status`, `log_now`, `ended`, `needs_changed` (since the start), `priced`, and fields that begin with
``seen_``. At the start all fields are zero but `seed`, `task` and `next`."""


class Records(NamedTuple):
    """The types of an episode's records: small ones where all counts fit into a byte, else large ones."""

    # one candidate in an episode: its calls admitted, started, running and in flight as a view shows them, the number of calls
    # in its rate window, its latent chain, and the last outcome that a view shows
    slot: np.dtype[Any]
    # a call in flight: its place among simultaneous events (-1 while it waits to start), the epochs in which it was submitted
    # and started, its number among its tool's, its status, the need whose fact it brings, the one that it is for, and the one
    # that it changes
    call: np.dtype[Any]
    number: np.dtype[Any]
    news: np.dtype[Any]  # a completion or an event, coded as `kernels.wait` returns it


def _records(count: Any, order: Any, number: Any, news: Any) -> Records:
    counts = ("count", "started", "busy", "shown", "window", "seen_epoch")
    small = [(name, np.int8) for name in ("chain", "usual", "works")]
    counted = [("submit_epoch", count), ("start_epoch", count), ("k", count)]
    return Records(
        slot=record_type([*((name, count) for name in counts), *small, ("outcome", np.uint8)]),
        call=record_type([("order", order), *counted, *((name, np.int8) for name in ("status", "need", "aim", "effect"))]),
        number=np.dtype(number),
        news=np.dtype(news),
    )


SMALL = _records(np.uint8, np.int16, np.uint8, np.int16)
LARGE = _records(np.int32, np.int32, np.int16, np.int32)
BILL = record_type([(name, np.float64) for name in ("price", "started", "ready")])
"""What a call in flight will cost, and since when it loads and runs."""
ENTITY = record_type(
    [("since", np.float64), ("count", np.int32), ("seen", np.int32), ("duplicates", np.int32), ("perhaps", np.bool_)]
)
"""The effects on what a need wants; see `simulators.world.writes.Record`. With a count of 0, `since` says nothing."""
BURST = record_type([(name, np.float64) for name in ("begin", "end", "before")] + [("count", np.int64)])
"""The outage that an episode looked at last, as `records.in_outage` keeps it."""

# most episodes have few calls in flight; what needs more widens all rows at once, which `make_room` does between actions
_FIRST_ROOM = 16
_MOST_PLACES = np.iinfo(np.int16).max


class State(NamedTuple):
    """The arrays of N episodes."""

    episodes: NDArray[np.void]  # (N,) `EPISODE`
    slots: NDArray[np.void]  # (N, M) `Records.slot`
    calls: NDArray[np.void]  # (N, F) `Records.call`, the calls in flight in the order of submission
    # (N, P) from the front, when each call in flight ends; from the back, since when each idle instance is idle, in the order
    # in which they became idle
    times: NDArray[np.float64]
    numbers: NDArray[np.integer[Any]]  # (N, P) the candidates of those
    bills: NDArray[np.void]  # (N, F) `BILL` of the calls in flight where `Rules.track_bills` says so, else (1, 1)
    windows: NDArray[np.float64]  # (N, W) times of admitted calls, in order, a part per rate-limited candidate
    news: NDArray[np.integer[Any]]  # (N, F + E) ring of completions and events that no `wait` has returned yet
    bursts: NDArray[np.void]  # (N, 1) `BURST` where the platform has outages, one for each provider in sessions, else (1, 1)
    gpu_used: NDArray[np.float64]  # (N,) GPU memory of running calls where it is limited, else (1,)
    # (N, K) `ENTITY`, the effects on what each need wants, where the world has writes, else (1, 1)
    entities: NDArray[np.void]
    keys: NDArray[np.uint64]  # (N, M) bits of the needs for which a candidate has met its key, likewise


class _Largest(NamedTuple):
    """What sets the sizes of arrays: the largest rate limit of a candidate, and of all tasks the largest sum of rate limits and
    number of candidates that start cold."""

    rate_limit: int
    windows: int
    cold: int


class Batch:
    """N episodes as arrays, of tasks named by their place in `numbers`, to which `add` adds.

    `columns` is the number of candidates that can be called. The most calls that an episode submits, and that are in flight
    `at_once` or not reported yet, bound the memory where they are known.
    With `several`, tasks of other worlds will be added, whose tools may start cold.
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
        several: bool = False,
    ) -> None:
        self.world, self.count, self.most, self.at_once = world, count, most, at_once
        self.numbers = list(numbers)
        self.rules = batch_rules(world, budget or Budget(), enforcement, at_once == 1, several)
        self.columns = columns
        self.tables: Tables = make_tables(world, self.numbers, columns)
        width = self.tables.slots.shape[1]
        self._largest = _Largest(rate_limit=0, windows=1, cold=0)
        self._see(self.tables)
        if max(width, self._largest.rate_limit) > np.iinfo(np.int16).max:
            raise ConfigError("batch", f"expected at most {np.iinfo(np.int16).max} candidates and calls a window")
        self.records = self._fitting_records()
        room = self._first_room()
        self.state = self._fresh_state(width, room, self._columns_for(room), self._largest.windows)

    def _fresh_state(self, width: int, room: int, columns: int, windows: int, bursts: int = 1) -> State:
        """Arrays with so many columns for episodes that have not begun."""
        count, rules, tables, records = self.count, self.rules, self.tables, self.records
        return State(
            episodes=np.zeros(count, EPISODE),
            slots=np.zeros((count, width), records.slot),
            calls=np.zeros((count, room), records.call),
            times=np.zeros((count, columns)),
            numbers=np.zeros((count, columns), records.number),
            bills=np.zeros((count, room) if rules.track_bills else (1, 1), BILL),
            windows=np.zeros((count, windows)),
            news=np.zeros((count, room + tables.event_at.shape[1]), records.news),
            bursts=np.zeros((count if rules.burst_every_s > 0.0 else 1, bursts), BURST),
            gpu_used=np.zeros(count if rules.gpu_capacity_mb >= 0.0 else 1),
            entities=np.zeros((count, tables.after.shape[2]) if rules.writes else (1, 1), ENTITY),
            keys=np.zeros((count, width) if rules.writes else (1, 1), np.uint64),
        )

    def _see(self, tables: Tables) -> None:
        """Take notice of the tasks of some tables."""
        limits, cold = tables.slots["rate_limit"], tables.slots["cold_start_s"] > 0
        seen = (limits.max(initial=0), limits.sum(axis=1).max(initial=0), cold.sum(axis=1).max(initial=0))
        self._largest = _Largest(*(max(before, int(now)) for before, now in zip(self._largest, seen, strict=True)))

    def _fitting_records(self) -> Records:
        """The small records where the number of calls is known, and a byte counts calls, candidates, windows and events."""
        most = np.iinfo(np.uint8).max
        counts = (self.tables.slots.shape[1], self._largest.rate_limit, self.tables.event_at.shape[1])
        return SMALL if self.most is not None and max(self.most, *counts) <= most else LARGE

    def _first_room(self) -> int:
        if self.at_once is not None:
            return self.at_once
        return _FIRST_ROOM if self.most is None else min(_FIRST_ROOM, self.most)

    def _columns_for(self, room: int) -> int:
        """The columns for calls in flight and idle instances.

        Where one call is in flight at a time, a tool has at most one instance: an idle one is taken, or dropped if it is cold.
        """
        return room + self._largest.cold if self.at_once == 1 else room

    def add(self, numbers: Sequence[int], first: int) -> None:
        """Add rows for more tasks of `world` from the row `first` on, at the end or over others."""
        columns = self.tables.slots.shape[1] if self.columns is None else self.columns
        more = make_tables(self.world, numbers, columns, self.tables)
        self._see(more)
        self.tables = add_rows(self.tables, first, more)
        self.numbers[first : first + len(numbers)] = numbers
        self.records, state = self._fitting_records(), self.state
        room = state.calls.shape[1]
        self.state = replaced(
            self._with_room(room, max(state.times.shape[1], self._columns_for(room))),
            slots=state.slots.astype(self.records.slot, copy=False),
            windows=_wider(state.windows, self._largest.windows),
            entities=_wider(state.entities, self.tables.after.shape[2]) if self.rules.writes else state.entities,
            keys=_wider(state.keys, self.tables.slots.shape[1]) if self.rules.writes else state.keys,
        )

    @property
    def nbytes(self) -> int:
        """Size of the episodes' arrays in bytes, without the shared tables."""
        return sum(array.nbytes for array in self.state)

    def make_room(self, used: int) -> None:
        """Widen the arrays before the next action, where an episode that uses `used` columns could outgrow them."""
        # checked between actions, so that kernels need not look whether a row is full
        if self.at_once is not None or used < self.state.calls.shape[1]:
            return
        # by half again, so that a growing episode copies its arrays a few times at most
        wide = used * 3 // 2 + 1
        if self.most is not None and used <= self.most:
            wide = min(wide, self.most + 1)
        if wide > _MOST_PLACES:
            raise ConfigError(
                "batch", f"expected at most {_MOST_PLACES * 2 // 3} calls in flight and idle instances, got {used}"
            )
        self.state = self._with_room(wide, wide)

    def make_full_room(self) -> None:
        """Widen the arrays to what an episode can use; raises ConfigError where that is unknown or too large to count."""
        if self.most is None or self.most >= _MOST_PLACES:
            raise ConfigError("batch", f"expected a number of calls below {_MOST_PLACES}, got {self.most}")
        if self.at_once is None:
            self.state = self._with_room(self.most + 1, self.most + 1)

    def _with_room(self, room: int, columns: int) -> State:
        """The state with room for a number of calls in flight, and of these with idle instances."""
        state, records = self.state, self.records
        news = room + self.tables.event_at.shape[1]
        return replaced(
            state,
            calls=_wider(state.calls, room).astype(records.call, copy=False),
            times=_wider_ends(state.times, columns, state.episodes),
            numbers=_wider_ends(state.numbers, columns, state.episodes).astype(records.number, copy=False),
            bills=_wider(state.bills, room) if self.rules.track_bills else state.bills,
            news=_wider_ring(state.news, news, state.episodes).astype(records.news, copy=False),
        )

    # -- actions -----------------------------------------------------------------------------------------------------------

    def begin(self, rows: Any, seeds: Any) -> None:
        """Start the tasks in the (N,) `rows` of the tables afresh with (N,) `seeds`."""
        _begin(self.tables, self.rules, self.state, self._for_all(rows, np.int64), self._for_all(seeds, np.uint64))

    def submit(self, slots: Any, where: Any = True) -> NDArray[np.int64]:
        """Start a call of (N,) `slots` in each episode `where` true; returns (N,) the status of a refusal, or -1 where it is on
        its way."""
        return self._act(0, slots, where)

    def wait(self, where: Any = True) -> NDArray[np.int64]:
        """Go to each next completion or visible event: (N,) slot * 64 + status, -1 - the event's index, or `NOTHING`."""
        return self._act(1, 0, where)

    def cancel(self, slots: Any, where: Any = True) -> None:
        """Cut off the oldest call in flight of (N,) candidates, `slots`, in each episode that has one."""
        self._act(3, slots, where)

    def finish(self, where: Any = True) -> None:
        """End with an answer that holds every fact found so far."""
        self._act(2, 0, where)

    def _act(self, kind: int, slots: Any, where: Any) -> NDArray[np.int64]:
        chosen = self._for_all(where, np.bool_)
        if (self.state.episodes["over"] & chosen).any():
            raise EpisodeOver("an episode has ended; begin a new one before the next action")
        out = np.zeros(self.count, np.int64)
        self.make_room(_act_all(self.tables, self.rules, self.state, kind, self._for_all(slots, np.int64), chosen, out))
        return out

    def _for_all(self, values: Any, kind: Any) -> NDArray[Any]:
        """(N,) values, or one for all episodes, as the array that kernels take."""
        return np.broadcast_to(np.asarray(values, kind), self.count).copy()

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


def _wider_ends(array: NDArray[Any], columns: int, episodes: NDArray[np.void]) -> NDArray[Any]:
    """A wider array with what each episode keeps at the back, its idle instances, at the back again."""
    more = columns - array.shape[1]
    if more <= 0:
        return array
    wide = _wider(array, columns)
    # idle instances grow from the back of a row and calls from the front, so that one array serves both
    at_back = np.arange(columns) >= columns - episodes["idle"][:, None]
    wide[:, more:][at_back[:, more:]] = array[at_back[:, more:]]
    return wide


def _wider_ring(ring: NDArray[Any], columns: int, episodes: NDArray[np.void]) -> NDArray[Any]:
    """A wider ring with every episode's first entry in front."""
    size = ring.shape[1]
    if columns <= size:
        return ring
    wide = np.zeros((ring.shape[0], columns), ring.dtype)
    order = (episodes["news_at"][:, None] + np.arange(size)) % size
    wide[:, :size] = np.take_along_axis(ring, order, axis=1)
    episodes["news_at"] = 0
    return wide


@compiled
def _begin(tables: Any, rules: Any, state: Any, rows: Any, seeds: Any) -> None:
    for i in range(rows.size):
        kernels.begin(tables, rules, state, i, rows[i], seeds[i])


@compiled
def _act_all(tables: Any, rules: Any, state: Any, kind: int, slots: Any, where: Any, out: Any) -> Any:
    used = 0
    for i in range(slots.size):
        e = record_at(state.episodes, i)
        if where[i]:
            if kind == 1:
                out[i] = kernels.wait(tables, rules, state, i)
            elif kind == 2:
                kernels.finish(tables, rules, state, i)
            elif kind == 3:
                index = kernels.oldest(state, i, slots[i])
                if index != kernels.NOTHING:
                    kernels.cancel(tables, rules, state, i, index)
            elif 0 <= slots[i] < min(tables.slot_count[e.task], state.slots.shape[1]):
                out[i] = kernels.submit(tables, rules, state, i, slots[i])
            else:
                out[i] = kernels.UNKNOWN_TOOL
                kernels.refuse(tables, rules, state, i)
        used = max(used, kernels.places_used(e))
    return used
