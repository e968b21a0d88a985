"""The rules of `world` for one of N episodes, compiled from `rules`, and what only arrays of episodes need."""

# mypy: disable-error-code="misc,untyped-decorator,no-any-return"

from typing import Any

import numpy as np

from costgym.simulators.batch import records as source
from costgym.simulators.batch.compile import compiled_form
from costgym.simulators.batch.memory import clear_row, prefetch, prefetch_own, record_at
from costgym.simulators.batch.rng import inlined, internal
from costgym.simulators.rules import actions, calls, events, failures, gateway, grades, writes
from costgym.simulators.status import Status
from costgym.simulators.tools import CHECK, UNDO

_book = compiled_form((actions, calls, events, failures, gateway, grades, writes), source)
_actions, _calls, _writes, _records = (vars(_book[name]) for name in ("actions", "calls", "writes", "records"))
submit, refuse, cancel, oldest, wait = (_actions[name] for name in ("submit", "refuse", "cancel", "oldest", "wait"))
happen, spent_and_limit = vars(_book["events"])["happen"], vars(_book["gateway"])["spent_and_limit"]
pick, finish, figures = vars(_book["failures"])["pick"], vars(_book["grades"])["finish"], _writes["figures"]
due, event_at = _records["due"], _records["event_at"]

NOTHING, CODE, INVISIBLE = source.NOTHING, source.CODE, source.INVISIBLE
UNKNOWN_TOOL, FORBIDDEN = int(Status.UNKNOWN_TOOL), int(Status.FORBIDDEN)
_CHECK, _UNDO = CHECK, UNDO
# episodes ahead whose record, and whose next call, are prefetched: far enough for a cache line to come from memory, near enough
# not to be evicted
FAR, NEAR = 12, 4


@internal
def begin(tables: Any, rules: Any, state: Any, i: int, row: int, seed: Any) -> None:
    """Start the task in a row of the tables on a fresh clock."""
    # nearly every field starts at zero, and one block of zeros is cheaper than a store for each
    clear_row(state.episodes, i)
    clear_row(state.slots, i)
    e = record_at(state.episodes, i)
    e.seed, e.task, e.next = seed, row, -1
    e.known = tables.known[row]
    e.seen_known = e.known
    if rules.burst_every_s > 0.0:
        clear_row(state.bursts, i)
    if rules.writes:
        clear_row(state.entities, i)
        clear_row(state.keys, i)
    if rules.gpu_capacity_mb >= 0.0:
        state.gpu_used[i] = 0.0
    while event_at(tables, e) <= 0.0:
        happen(tables, state, i, np.int64(e.epoch))


@inlined
def prefetch_episode(state: Any, i: int) -> None:
    """Prefetch the record of an episode, which takes several cache lines: the first, the second, and the one with its end."""
    for line in (0, 64, state.episodes.itemsize - 1):
        prefetch_own(state.episodes, i, line)


@inlined
def prefetch_call(tables: Any, state: Any, i: int, row: int, slot: int) -> None:
    """Prefetch what a call of a candidate reads and writes, with the episode's task in a row of the tables."""
    prefetch_own(state.slots, i, slot * state.slots.itemsize)
    for line in (0, 64, tables.slots.itemsize - 1):
        prefetch(tables.slots, row, slot * tables.slots.itemsize + line)
    prefetch_own(state.times, i, 0)


@inlined
def places_used(e: Any) -> int:
    """The places that calls in flight and idle instances take, or calls in flight and completions that no `wait` has returned.

    The ring of `news` has a place for each event too, so events count only as far as they are more than have happened.
    """
    return e.records + max(e.idle, e.news - e.epoch)


@inlined
def is_due(tables: Any, state: Any, i: int, slot: int, wanted: Any) -> bool:
    """Return whether a candidate is a check or an undo of what `due` says is wanted."""
    task = record_at(state.episodes, i).task
    role = tables.effects[task, slot].role
    return (role == _CHECK and tables.serves[task, slot] & wanted[0] != 0) or (
        role == _UNDO and tables.serves[task, slot] & wanted[1] != 0
    )
