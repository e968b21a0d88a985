"""Effects of calls that write: what a call is for, whether it takes effect, and what its end tells of it."""

from typing import Any

from costgym.simulators.rules import layout
from costgym.simulators.status import Status
from costgym.simulators.tools import CHECK, READ, UNDO, WRITE

OK, NO_DATA = Status.OK, Status.NO_DATA
NOTHING_CHANGED = -1  # what a call changes that takes no effect


def aim(tables: Any, rules: Any, state: Any, i: Any, slot: Any, spec: Any) -> Any:
    """The need that a call without arguments is for: the first of its tool's whose fact is missing and can be had now.

    A check is for the first need about which a call ended ambiguously, an undo for the first that was seen twice.
    """
    if layout.serves_several(tables, state, i, slot):
        e = layout.episode(state, i)
        role = layout.role(tables, e, slot) if rules.writes else READ
        for need in layout.needs(tables, e):
            if not layout.serves(tables, e, slot, need):
                continue
            if role == CHECK:
                wanted = layout.record(state, i, need).perhaps
            elif role == UNDO:
                wanted = layout.record(state, i, need).seen > 1
            else:
                wanted = not layout.knows(e, need) and layout.ready(tables, e, need)
            if wanted:
                return need
    return spec.need


def happens(role: Any, effect: Any, status: Any, luck: Any) -> Any:
    """Return whether a call that ends so takes effect: one that ends ambiguously does with the tool's chance."""
    return status == OK or (role != CHECK and layout.ambiguous(status) and luck < effect.happens)


def decide(tables: Any, state: Any, i: Any, call: Any, slot: Any, status: Any, luck: Any) -> None:
    """Decide whether a call that starts now will take effect when it ends, and on what."""
    e = layout.episode(state, i)
    role = layout.role(tables, e, slot)
    call.effect = NOTHING_CHANGED
    if role == READ:
        return
    if role != WRITE:
        call.need = -1  # what it tells is known when it ends
    if happens(role, layout.effect(tables, e, slot), status, luck):
        call.effect = layout.entity(tables, e, call, slot)


def take_effect(tables: Any, state: Any, i: Any, index: Any, slot: Any, aimed: Any, entity: Any, status: Any) -> Any:
    """Let a call that ends now take its effect, and note what its end tells of it; returns its status."""
    e = layout.episode(state, i)
    role = layout.role(tables, e, slot)
    if role == READ:
        return status
    if entity != NOTHING_CHANGED:
        record, now = layout.record_of(tables, state, i, slot, entity), layout.now(e)
        effect, repeated = layout.effect(tables, e, slot), False
        if role == WRITE:
            repeated = effect.idempotent and layout.repeats(state, i, index, slot, entity)
            if not repeated:
                make(record, now + effect.settles_s)
        elif role == UNDO:
            if visible(record, now):
                record.count -= 1
            elif status == OK:
                status = NO_DATA
        if status == OK:
            if role == WRITE:
                record.seen = max(record.seen, 1) if repeated else record.seen + 1
            elif role == UNDO:
                record.seen = max(0, record.seen - 1)
            else:
                record.seen, record.perhaps = visible(record, now), False
            layout.note_seen(e, entity, record.seen > 0)
    about = entity if layout.is_need(entity) else aimed
    if about >= 0 and role != CHECK and layout.wants_effect(tables, e, about) and layout.ambiguous(status):
        layout.record(state, i, about).perhaps = True
    return status


def make(record: Any, at_s: Any) -> None:
    """Add an effect, which tools see from a time on. The entity is visible from the first such time."""
    record.since = min(record.since, at_s) if record.count else at_s
    record.duplicates += record.count > 0
    record.count += 1


def visible(record: Any, now: Any) -> Any:
    """The number of effects that tools see."""
    return record.count if record.count > 0 and now >= record.since else 0


def need_met(tables: Any, state: Any, i: Any, need: Any, stated: Any) -> Any:
    """Return whether a need is met at the end: its fact is stated, or its effect is there once, and stated where asked for."""
    e = layout.episode(state, i)
    if not layout.wants_effect(tables, e, need):
        return stated
    return layout.record(state, i, need).count == 1 and (stated or not layout.must_be_stated(tables, e, need))


def figures(tables: Any, state: Any, i: Any) -> Any:
    """The figures of the present state in the order of `simulators.world.writes.WriteFigures`, as if it were the final one:
    whether every wanted effect is there once and no other, duplicates, effects that nobody wants, and what those are worth.
    Effects that settle later are among them."""
    e = layout.episode(state, i)
    correct, duplicates, surplus, lost = True, 0, 0, 0.0
    for entity in layout.entities(tables, state, i):
        if not layout.has_record(tables, e, entity):
            continue
        record = layout.record(state, i, entity)
        more = surplus_of(record, entity)
        missing = layout.is_need(entity) and record.count < 1 and layout.required(tables, e, entity)
        correct &= more == 0 and not missing
        duplicates += record.duplicates
        surplus += more
        lost += more * layout.amount(tables, state, i, entity)
    return correct, duplicates, surplus, lost


def surplus_of(record: Any, entity: Any) -> Any:
    """The number of effects beyond what is wanted: one where a need wants it, else none."""
    return max(0, layout.integer(record.count) - (1 if layout.is_need(entity) else 0))


def is_clean(tables: Any, state: Any, i: Any) -> Any:
    """Return whether no effect is there twice, and none that nobody wants."""
    e = layout.episode(state, i)
    for entity in layout.entities(tables, state, i):
        if layout.has_record(tables, e, entity) and surplus_of(layout.record(state, i, entity), entity) > 0:
            return False
    return True
