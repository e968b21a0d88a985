"""Write the effects of N episodes into observations and masks, compiled; `envs.writing` does so for one episode in Python."""

# mypy: disable-error-code="misc,untyped-decorator,no-any-return"

from typing import Any

import numpy as np

from ....simulators.batch import kernels as world
from ....simulators.batch.memory import copy_row
from ....simulators.batch.rng import inlined, internal
from ....simulators.batch.writes import due, figures, is_due

_ONE = np.uint64(1)
_ZERO, _QUARTER, _WHOLE = np.float32(0.0), np.float32(0.25), np.float32(1.0)


@inlined
def is_useful(tables: Any, state: Any, i: int, slot: int) -> bool:
    """Return whether a call is a check or an undo that can tell or change something."""
    return is_due(tables, state, i, slot, due(tables, state, i))


@internal
def show_writes(tables: Any, rules: Any, state: Any, view: Any, out: Any, i: int, whole: bool) -> None:
    """Write the effects, the figures of the final state, and the mask's checks and undoes; with `whole` the roles too."""
    e = state.episodes[i]
    task = np.int64(e.task)
    if whole:
        copy_row(out.roles, i, view.roles, task)
    wanted = tables.state[task]
    count: Any = min(6, np.int64(tables.need_count[task]))
    for need in range(6):
        shown = need < count and (wanted >> np.uint64(need)) & _ONE
        record = state.entities[i, need if shown else 0]
        out.effects[i, need, 0] = _WHOLE if shown else _ZERO
        out.effects[i, need, 1] = min(_WHOLE, _QUARTER * np.float32(record.seen)) if shown else _ZERO
        out.effects[i, need, 2] = _WHOLE if shown and record.perhaps else _ZERO
    written = out.written
    written[0, i], written[1, i], written[2, i], written[3, i] = figures(tables, state, i)
    needs_due = due(tables, state, i)
    if view.useful and (needs_due[0] | needs_due[1]) != 0:
        spent, limit = world.spent_and_limit(rules, e)
        for row in range(min(np.int64(tables.slot_count[task]), state.slots.shape[1])):
            if is_due(tables, state, i, np.int64(view.slots[task, row]), needs_due):
                covered = spent + view.dues[task, np.int64(e.epoch), row] <= limit
                out.mask[i, row] = view.mask[task, np.int64(e.epoch), row] & covered
