"""Effects of calls in a batch, compiled: rule 13 of `world`, as `simulators.writes` plays it for one episode in Python.

Calls have no arguments here, so an effect is always about a need that wants it.
"""

# mypy: disable-error-code="misc,untyped-decorator,no-any-return"

from typing import Any

import numpy as np

from costgym.simulators.batch.memory import record_type
from costgym.simulators.batch.rng import inlined
from costgym.simulators.status import AMBIGUOUS, Status
from costgym.simulators.tools import CHECK, READ, UNDO, WRITE

EFFECT = record_type([("settles_s", np.float64), ("happens", np.float64), ("role", np.int8), ("idempotent", np.bool_)])
"""What calls of a candidate do to the store; see `tools.Effect`."""
ENTITY = record_type(
    [("since", np.float64), ("count", np.int32), ("seen", np.int32), ("duplicates", np.int32), ("perhaps", np.bool_)]
)
"""The effects on what a need wants; see `simulators.writes.Record`. With a count of 0, `since` says nothing."""

_READ, _WRITE, _CHECK, _UNDO = READ, WRITE, CHECK, UNDO
_OK, _NO_DATA = int(Status.OK), int(Status.NO_DATA)
_AMBIGUOUS = np.int64(sum(1 << int(status) for status in AMBIGUOUS))
_ONE = np.uint64(1)


@inlined
def aim(tables: Any, rules: Any, state: Any, i: int, slot: int) -> Any:
    """The need that a call is for, as `calls.aim` chooses it."""
    e = state.episodes[i]
    serves = tables.serves[e.task, slot]
    if serves and serves & (serves - _ONE):  # two needs at least, which is rare
        role = tables.effects[e.task, slot].role
        for need in range(tables.need_count[e.task]):
            bit = _ONE << np.uint64(need)
            after = tables.after[e.task, e.epoch, need]
            if not serves & bit:
                continue
            if rules.writes and role == _CHECK:
                wanted = state.entities[i, need].perhaps
            elif rules.writes and role == _UNDO:
                wanted = state.entities[i, need].seen > 1
            else:
                wanted = not e.known & bit and (e.known & after) == after
            if wanted:
                return need
    return np.int64(tables.slots[e.task, slot].need)


@inlined
def decide(tables: Any, state: Any, i: int, call: Any, slot: int, status: int, luck: float) -> None:
    """Decide whether a call that starts now will take effect when it ends."""
    e = state.episodes[i]
    spec, need = tables.effects[e.task, slot], np.int64(call.aim)
    call.effect = -1
    if spec.role == _READ:
        return
    if spec.role != _WRITE:
        call.need = -1  # what it tells is known when it ends
    if need < 0:
        return
    after = tables.after[e.task, e.epoch, need]
    open_end = spec.role != _CHECK and ((_AMBIGUOUS >> status) & 1) == 1 and luck < spec.happens
    if (e.known & after) == after and (status == _OK or open_end):
        call.effect = need


@inlined
def take_effect(tables: Any, state: Any, i: int, slot: int, aimed: int, effect: int, status: int) -> Any:
    """Let a call that ends now take its effect, and note what its end tells; returns its status."""
    e = state.episodes[i]
    spec = tables.effects[e.task, slot]
    if spec.role == _READ:
        return status
    if effect >= 0:
        record = state.entities[i, effect]
        bit = _ONE << np.uint64(effect)
        repeated = False
        if spec.role == _WRITE:
            if spec.idempotent:
                repeated = (state.keys[i, slot] & bit) != 0
                state.keys[i, slot] |= bit
            if not repeated:
                visible_s = e.now + spec.settles_s
                record.since = min(record.since, visible_s) if record.count else visible_s
                record.duplicates += record.count > 0
                record.count += 1
        elif spec.role == _UNDO:
            if record.count > 0 and e.now >= record.since:
                record.count -= 1
            elif status == _OK:
                status = _NO_DATA
        if status == _OK:
            if spec.role == _WRITE:
                record.seen = max(record.seen, 1) if repeated else record.seen + 1
            elif spec.role == _UNDO:
                record.seen = max(0, record.seen - 1)
            else:
                record.seen = record.count if e.now >= record.since else 0
                record.perhaps = False
            if record.seen > 0:
                e.known |= bit
            else:
                e.known &= ~bit
    wanted = aimed >= 0 and (tables.state[e.task] >> np.uint64(aimed)) & _ONE
    if wanted and spec.role != _CHECK and ((_AMBIGUOUS >> status) & 1) == 1:
        state.entities[i, aimed].perhaps = True
    return status


@inlined
def met(tables: Any, state: Any, i: int) -> Any:
    """Bits of the required needs that are met when the episode ends with an answer, and whether no effect is there twice."""
    e = state.episodes[i]
    required, wanted, clean = tables.required[e.task], tables.state[e.task], True
    found = e.known & required & ~wanted
    for need in range(tables.need_count[e.task]):
        bit = _ONE << np.uint64(need)
        if wanted & bit:
            count = state.entities[i, need].count
            clean &= count <= 1
            if count == 1 and required & bit and (e.known & bit or not tables.told[e.task] & bit):
                found |= bit
    return found, clean


@inlined
def due(tables: Any, state: Any, i: int) -> Any:
    """Bits of the needs that a check can tell something new of, and of those whose effect was seen twice."""
    wanted, checks, undoes = tables.state[state.episodes[i].task], np.uint64(0), np.uint64(0)
    for need in range(tables.need_count[state.episodes[i].task]):
        bit = _ONE << np.uint64(need)
        if wanted & bit:
            record = state.entities[i, need]
            checks |= bit if record.perhaps else np.uint64(0)
            undoes |= bit if record.seen > 1 else np.uint64(0)
    return checks, undoes


@inlined
def is_due(tables: Any, state: Any, i: int, slot: int, wanted: Any) -> bool:
    """Return whether a candidate is a check or an undo of what `due` says is wanted."""
    task = state.episodes[i].task
    role = tables.effects[task, slot].role
    return (role == _CHECK and tables.serves[task, slot] & wanted[0] != 0) or (
        role == _UNDO and tables.serves[task, slot] & wanted[1] != 0
    )


@inlined
def figures(tables: Any, state: Any, i: int) -> Any:
    """The figures of the present state in the order of `simulators.writes.WriteFigures`, as if it were the final one."""
    e = state.episodes[i]
    wanted, correct, duplicates, surplus, lost = tables.state[e.task], True, 0, 0, 0.0
    for need in range(tables.need_count[e.task]):
        bit = _ONE << np.uint64(need)
        if wanted & bit:
            record = state.entities[i, need]
            count: Any = np.int64(record.count)
            correct &= count == 1 or (count == 0 and not tables.required[e.task] & bit)
            duplicates += record.duplicates
            more: Any = max(0, count - 1)
            surplus += more
            lost += more * tables.amount[e.task, need]
    return correct, duplicates, surplus, lost


@inlined
def bits(of: Any) -> int:
    """The number of bits that are set."""
    count = 0
    while of:
        of &= of - _ONE
        count += 1
    return count
