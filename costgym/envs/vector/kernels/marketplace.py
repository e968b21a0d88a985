"""Compiled steps of N episodes of the marketplace; `marketplace.MarketplaceEnv` plays one in Python.

Both write observations, each in its own way, and lockstep holds the two together. A column is a count, a flag or a share, so
what could be shared is one operation each. The work lies in when a number is written: here a step writes the row that a call
has touched, into one array of N episodes, and keeps the clock's logarithm; there arrays are new at every step.
"""

# mypy: disable-error-code="misc,untyped-decorator,no-any-return"

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costgym.envs.vector.info import NOTHING_SPENT, report, spent
from costgym.simulators.batch import kernels as world
from costgym.simulators.batch.arguments import bound_arguments
from costgym.simulators.batch.blocks import WARP
from costgym.simulators.batch.memory import copy_row, copy_share, lowest_bit, prefetch, prefetch_own, record_at, take_place
from costgym.simulators.batch.rng import compiled, inlined, internal, log, next_draw, prange, row, threaded
from costgym.simulators.batch.tables import PRICE_CHANGE
from costgym.simulators.status import LOOKS_OK, Status

_CALLS, _IN_FLIGHT, _OK, _FAILED, _BANNED = range(5)
"""The columns of `tools` that change call by call, from `View.first_call` on; the price changes with events only."""
_SUCCEEDED, _UNSUCCESSFUL, _OUT_OF_BOUNDS = 1, 2, 4
"""Bits of a candidate's `outcome`: how its last call looked, and whether it was seen banned."""
_UNSEEN_NEED, _ANY_NEED = np.uint8(1 << 6), np.uint8(255)
"""Bits of `View.serves`: a need that observations do not show; the highest stands for no need."""
_ZERO, _WHOLE, _QUARTER = np.float32(0.0), np.float32(1.0), np.float32(0.25)
_CODE = 64
_LOOKS_OK = np.int64(sum(1 << int(status) for status in LOOKS_OK if status is not Status.EMPTY))
_ONE = np.uint64(1)
ALL, START, COPIED = -2, -3, -4
"""Values in place of a row of `tools` to rewrite: all rows; all rows, with the values of the start; those that differ from the
start, whose values are there."""
_NONE = -1


class View(NamedTuple):
    """The tables behind observations, over tasks (T), candidates (M), epochs (E + 1) and needs (6)."""

    tools: NDArray[np.float32]  # (T, M, 16) `observation["tools"]` at the start, or (T, M, 6) of its columns that change
    fixed: NDArray[np.float32]  # (T, M, 10) the others, where they are apart
    plain: NDArray[np.float32]  # (T, 6, 3) `observation["needs"]` at the start
    mask: NDArray[np.bool_]  # (T, E + 1, A) the actions that are possible in an epoch, budgets, needs and `wait` aside
    quote: NDArray[np.float32]  # (T, E + 1, M) the price column by epoch
    dues: NDArray[np.float64]  # (T, E + 1, M) what a row's call is quoted at by epoch, in the scenario's currency
    slots: NDArray[np.int16]  # (T, M) the candidate of each row of `tools`
    rows: NDArray[np.int16]  # (T, M) the row of each candidate
    roles: NDArray[np.float32]  # (T, M, 5) `observation["roles"]`, where the world has writes
    serves: NDArray[np.uint8]  # (T, M) the needs that a row serves, as in `marketplace.Template.serves`
    concurrent: bool  # calls run side by side
    useful: bool  # `mask` is ``useful``
    highest: float  # bound of prices and clocks in an observation
    least: float  # bound of shares that are left in an observation
    choices: int  # number of tasks that a reset draws from, the first in the tables; 0 if the kernels do not draw
    max_steps: int
    time_limit: int  # steps after which an episode is truncated whatever it says
    autoreset: bool  # a step of an episode that has ended begins a new one instead
    # price_column, first_call: columns of `tools`, the second the first of those that change call by call
    price_column: int
    first_call: int
    factored: bool  # `fixed` is apart
    fresh: bool  # a step's `Out.tools` holds nothing yet, so every row is written
    # scale, loss, alpha: of `MarketplaceEnv`
    scale: float
    loss: float
    alpha: float
    # price_share, seconds_share, calls_share: 1 / limit, or 0
    price_share: float
    seconds_share: float
    calls_share: float
    judged: bool  # the lenient grade counts
    resource: int  # index of the resource that `cost_sum` reports


class Out(NamedTuple):
    """The arrays that a step writes: observations, outcomes and figures of N episodes."""

    # tools, needs, resources: (N, M, 16), or (N, M, 6) without `fixed`; (N, 6, 3), (N, 8)
    tools: NDArray[np.float32]
    needs: NDArray[np.float32]
    resources: NDArray[np.float32]
    mask: NDArray[np.bool_]  # (N, A)
    # rewards, terminated, truncated: (N,)
    rewards: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    # figures, counts: (8, N), (3, N) named by `info.FIGURES` and `info.COUNTS`
    figures: NDArray[np.float64]
    counts: NDArray[np.int64]
    success: NDArray[np.bool_]  # (N,)
    # roles, effects: (N, M, 5), (N, 6, 3), likewise observations, where the world has writes; else (1, 1, 1)
    roles: NDArray[np.float32]
    effects: NDArray[np.float32]
    written: NDArray[np.float64]  # (4, N) the `WriteFigures`, likewise
    fixed: NDArray[np.float32]  # (N, M, 10) the columns of `tools` that a task fixes, where they are apart; else (1, 1, 1)


class Starts(NamedTuple):
    """What N episodes begin with, if they begin."""

    tasks: NDArray[np.int64]  # (N,) a row of the tables, or -1 to draw one
    # seeds, seeded: (N,) the episode's seed, and whether it is given
    seeds: NDArray[np.uint64]
    seeded: NDArray[np.bool_]
    drawn: bool  # tasks and seeds were already drawn from the streams


class Ended(NamedTuple):
    """The environments, of a GPU, that begin an episode in a step."""

    rows: NDArray[np.int64]  # (N,) their numbers, in any order
    total: NDArray[np.int64]  # (1,) how many there are
    at_once: bool  # in the step in which the last one has ended


@compiled
def reset_where(bound: Any, out: Any, starts: Any, where: Any, show_all: bool) -> Any:
    """Begin the episodes of `where`; returns the largest number of places that one uses, for `Batch.make_room`."""
    tables, rules, state, view, streams, _, _ = bound_arguments(bound)
    used = 0
    for i in range(where.size):
        used = max(used, reset_row(tables, rules, state, view, out, streams, starts, where, show_all, i))
    return used


@row
def reset_row(
    tables: Any, rules: Any, state: Any, view: Any, out: Any, streams: Any, starts: Any, where: Any, show_all: bool, i: int
) -> Any:
    """Begin episode i where `where` says so (`show_all`: write the others' state too); returns the places that it uses."""
    e = record_at(state.episodes, i)
    touched, before = ALL, spent(e)
    if where[i]:
        touched = _begin(tables, rules, state, view, out, streams, starts, i)
        before = NOTHING_SPENT
    if where[i] or show_all:
        _show(tables, rules, state, view, out, i, touched, before, True)
    return world.places_used(e)


@compiled
def step_part(bound: Any, out: Any, actions: Any, part: int) -> None:
    """Play one step of part number `part`; the bound `room` (P,) receives the most places that an episode uses."""
    tables, rules, state, view, streams, starts, room = bound_arguments(bound)
    used, parts = 0, room.size
    for i in range(part * actions.size // parts, (part + 1) * actions.size // parts):
        _look_ahead(tables, state, view, out, actions, i)
        used = max(used, step_row(tables, rules, state, view, out, streams, actions, starts, i))
    room[part] = used


@row
def step_row(tables: Any, rules: Any, state: Any, view: Any, out: Any, streams: Any, actions: Any, starts: Any, i: int) -> Any:
    """Play an action, of (N,) integers, in episode i, or begin the next one; returns the number of places that it uses."""
    begins = view.autoreset and record_at(state.episodes, i).ended
    if begins:
        touched, before, needs = _begin(tables, rules, state, view, out, streams, starts, i), NOTHING_SPENT, True
    else:
        touched, before, needs = _played(tables, rules, state, view, out, actions, i)
    return _end_step(tables, rules, state, view, out, i, touched, before, needs, begins)


@row
def _played(tables: Any, rules: Any, state: Any, view: Any, out: Any, actions: Any, i: int) -> Any:
    """Play an action; returns what of `tools` is to be written, what had been spent before, and whether `needs` change."""
    e = record_at(state.episodes, i)
    before, known, ready = spent(e), e.seen_known, e.seen_ready
    touched = _act(tables, rules, state, view, out, i, np.int64(actions[i]))
    needs = view.fresh or e.seen_known != known or e.seen_ready != ready
    return ALL if view.fresh else touched, before, needs


@row
def _end_step(
    tables: Any, rules: Any, state: Any, view: Any, out: Any, i: int, touched: int, before: Any, needs: bool, begins: bool
) -> Any:
    """Write what a step returns; returns the number of places that the episode uses."""
    e = record_at(state.episodes, i)
    cost, success = _show(tables, rules, state, view, out, i, touched, before, needs)
    # in the order of `ToolEnv._outcome`: the last bits depend on it
    reward = -view.loss * cost
    out.rewards[i] = 0.0 if begins else reward + view.alpha if success else reward
    out.terminated[i] = e.over and not begins
    out.truncated[i] = ((not e.over and e.steps >= view.max_steps) or e.steps >= view.time_limit) and not begins
    e.ended = out.terminated[i] or out.truncated[i]
    return world.places_used(e)


@threaded
def step_parts(bound: Any, out: Any, actions: Any, parts: int) -> None:
    """Play one step of every episode, each part on a thread of its own."""
    for part in prange(parts):
        step_part(bound, out, actions, np.int64(part))


@compiled
def play_one(bound: Any, action: int, task: int, seed: int) -> Any:
    """Play an action of a batch of one, or begin the episode of a `task` that is not -1; returns the places that it uses."""
    tables, rules, state, view, out, streams, actions, starts = bound_arguments(bound)
    # an episode that has ended starts again under autoreset, which lets one kernel both play and begin
    record_at(state.episodes, 0).ended = task >= 0
    actions[0], starts.tasks[0], starts.seeds[0] = action, task, np.uint64(seed)
    return step_row(tables, rules, state, view, out, streams, actions, starts, 0)


# -- the same on a GPU: who plays and who begins are in kernels apart, so that threads of a warp do the same ------------------


@inlined
def act_row(
    tables: Any, rules: Any, state: Any, view: Any, out: Any, streams: Any, actions: Any, starts: Any, ended: Any, i: int
) -> None:
    """Play an action in episode i, or note in `ended` that the next one begins."""
    begins = view.autoreset and record_at(state.episodes, i).ended
    if not begins:
        touched, before, needs = _played(tables, rules, state, view, out, actions, i)
        _end_step(tables, rules, state, view, out, i, touched, before, needs, False)
    if begins or (ended.at_once and record_at(state.episodes, i).ended):
        ended.rows[take_place(ended.total)] = i


@inlined
def begin_row(
    tables: Any, rules: Any, state: Any, view: Any, out: Any, streams: Any, actions: Any, starts: Any, ended: Any, k: int
) -> None:
    """Begin the k-th of the noted episodes."""
    if k < ended.total[0]:
        _begin(tables, rules, state, view, out, streams, starts, ended.rows[k])


@inlined
def copy_start(
    tables: Any, rules: Any, state: Any, view: Any, out: Any, streams: Any, actions: Any, starts: Any, ended: Any,
    k: int, lane: int,
) -> None:  # fmt: skip
    """Copy one thread's share of what the k-th of them observes at its start."""
    if k < ended.total[0]:
        i = ended.rows[k]
        task = np.int64(record_at(state.episodes, i).task)
        copy_share(out.tools, i, view.tools, task, lane, WARP)
        if view.factored:
            copy_share(out.fixed, i, view.fixed, task, lane, WARP)
        copy_share(out.needs, i, view.plain, task, lane, WARP)


@inlined
def show_row(
    tables: Any, rules: Any, state: Any, view: Any, out: Any, streams: Any, actions: Any, starts: Any, ended: Any, k: int
) -> None:
    """Write what else the k-th of them observes."""
    if k < ended.total[0]:
        i = ended.rows[k]
        needs = record_at(state.episodes, i).needs_changed
        if ended.at_once:
            _show(tables, rules, state, view, out, i, COPIED, NOTHING_SPENT, needs)
        else:
            _end_step(tables, rules, state, view, out, i, COPIED, NOTHING_SPENT, needs, True)


BEGINNING: tuple[tuple[Any, int], ...] = (begin_row, 1), (copy_start, WARP), (show_row, 1)
"""The kernels that begin episodes after `act_row`, each with its number of threads for one episode."""


@inlined
def _look_ahead(tables: Any, state: Any, view: Any, out: Any, actions: Any, i: int) -> None:
    """Prefetch the memory of the next episodes; without this a large batch waits for memory most of the time."""
    far, near = i + world.FAR, i + world.NEAR
    if far >= actions.size:
        return
    world.prefetch_episode(state, far)
    e = record_at(state.episodes, near)
    if 0 <= actions[near] < state.slots.shape[1]:
        slot = np.int64(view.slots[e.task, actions[near]])
        world.prefetch_call(tables, state, near, e.task, slot)
        prefetch_own(out.tools, near, (np.int64(actions[near]) * out.tools.shape[2] + view.first_call) * out.tools.itemsize)
        price = (np.int64(e.epoch) * tables.quote.shape[2] + slot) * 8
        prefetch(tables.quote, e.task, price)
        prefetch(tables.factor, e.task, price)


@internal
def _begin(tables: Any, rules: Any, state: Any, view: Any, out: Any, streams: Any, starts: Any, i: int) -> int:
    """Begin an episode; returns what of `tools` is to be written: START, or ALL where something has happened already."""
    seed, row = starts.seeds[i], starts.tasks[i]
    draw = seed if starts.drawn else next_draw(streams, i)
    task = np.int64(draw % np.uint64(view.choices)) if row < 0 else np.int64(row)
    world.begin(tables, rules, state, i, task, seed if starts.seeded[i] else draw)
    e = record_at(state.episodes, i)
    e.seen_ready = _ready(tables, e)
    if view.concurrent or e.news == 0:
        return START
    _settle(tables, rules, state, view, out, i, _NONE)
    return ALL


@inlined
def _ready(tables: Any, e: Any) -> Any:
    """Bits of the needs whose arguments are all known."""
    ready = np.uint64(0)
    # a word of bits instead of a list of facts: a need is ready if it asks for no bit that is missing
    for need in range(min(6, tables.need_count[e.task])):
        after = tables.after[e.task, e.epoch, need]
        if (e.seen_known & after) == after:
            ready |= _ONE << np.uint64(need)
    return ready


@row
def _act(tables: Any, rules: Any, state: Any, view: Any, out: Any, i: int, action: Any) -> Any:
    """Play one action; returns the row of `tools` that changed, ALL, or -1 for none."""
    e = record_at(state.episodes, i)
    e.steps += 1
    width = state.slots.shape[1]
    touched: Any = _NONE
    if action == out.mask.shape[1] - 1:
        world.finish(tables, rules, state, i)
    elif action == width and view.concurrent:
        if e.records > 0 or e.news > 0:
            return _receive(tables, state, view, out, i, world.wait(tables, rules, state, i))
        world.refuse(tables, rules, state, i)
        e.status = world.FORBIDDEN
    elif 0 <= action < min(tables.slot_count[e.task], width):
        slot = np.int64(view.slots[e.task, action])
        useful = (view.serves[e.task, action] & _wanted(view, e)) != 0
        if useful or (rules.writes and world.is_due(tables, state, i, slot, world.due(tables, state, i))):
            refusal = world.submit(tables, rules, state, i, slot)
        else:  # it can bring nothing; bans and limits are the gateway's to tell
            world.refuse(tables, rules, state, i)
            refusal = world.FORBIDDEN
        s = state.slots[i, slot]
        if refusal >= 0:
            e.status = refusal
            s.outcome = (s.outcome & _OUT_OF_BOUNDS) | _UNSUCCESSFUL
        else:
            s.shown += 1
        e.seen_rows |= _bit(action)
        touched = action
    else:
        world.refuse(tables, rules, state, i)
        e.status = world.UNKNOWN_TOOL
    return touched if view.concurrent else _settle(tables, rules, state, view, out, i, touched)


@inlined
def _wanted(view: Any, e: Any) -> Any:
    """Bits of the needs, as in `View.serves`, for which a call can bring something."""
    return np.uint8(np.uint64(e.seen_ready) & ~e.seen_known) | _UNSEEN_NEED if view.useful else _ANY_NEED


@inlined
def _settle(tables: Any, rules: Any, state: Any, view: Any, out: Any, i: int, touched: Any) -> Any:
    """Wait until nothing is on its way and every event so far was seen; returns which rows changed, with those `touched`."""
    e = record_at(state.episodes, i)
    # a row that was called and then reported is one and the same, so only another row, or all, has to be told
    while not e.over and (e.records > 0 or e.news > 0):
        changed = _receive(tables, state, view, out, i, world.wait(tables, rules, state, i))
        if changed == ALL or touched == _NONE:
            touched = changed
    return touched


@inlined
def _receive(tables: Any, state: Any, view: Any, out: Any, i: int, news: int) -> Any:
    if news == world.NOTHING:
        return _NONE
    e = record_at(state.episodes, i)
    if news >= 0:
        slot, status = news // _CODE, news % _CODE
        e.status = status
        s = state.slots[i, slot]
        s.shown -= 1
        looks_ok = ((_LOOKS_OK >> status) & 1) == 1
        s.outcome = (s.outcome & _OUT_OF_BOUNDS) | (_SUCCEEDED if looks_ok else _UNSUCCESSFUL)
        touched: Any = np.int64(view.rows[e.task, slot])
    else:
        event = -1 - news
        for slot in range(min(tables.slot_count[e.task], state.slots.shape[1])):
            if tables.event_hits[e.task, event, slot]:
                if tables.event_kind[e.task, event] == PRICE_CHANGE:
                    state.slots[i, slot].seen_epoch = e.epoch
                    e.priced = True
                else:
                    s = state.slots[i, slot]
                    banned = _OUT_OF_BOUNDS if tables.banned[e.task, e.epoch, slot] else 0
                    s.outcome = (s.outcome & (_SUCCEEDED | _UNSUCCESSFUL)) | banned
                    e.seen_rows |= _bit(view.rows[e.task, slot])
        touched = ALL
    if e.known != e.seen_known:
        e.seen_known, e.needs_changed = e.known, True
        e.seen_ready = _ready(tables, e)
    return touched


@inlined
def _bit(row: Any) -> Any:
    """The bit of `seen_rows` that stands for a row of `tools`, and for each 64th row after it."""
    return _ONE << np.uint64(row & 63)


@inlined
def _show_calls(state: Any, view: Any, out: Any, i: int, row: int) -> None:
    """Write the columns of `tools` that change call by call, of one row."""
    s, tools, first = state.slots[i, view.slots[record_at(state.episodes, i).task, row]], out.tools, view.first_call
    tools[i, row, first + _CALLS] = s.count * _QUARTER
    tools[i, row, first + _IN_FLIGHT] = s.shown
    tools[i, row, first + _OK] = _WHOLE if s.outcome & _SUCCEEDED else _ZERO
    tools[i, row, first + _FAILED] = _WHOLE if s.outcome & _UNSUCCESSFUL else _ZERO
    tools[i, row, first + _BANNED] = _WHOLE if s.outcome & _OUT_OF_BOUNDS else _ZERO


@inlined
def _show(tables: Any, rules: Any, state: Any, view: Any, out: Any, i: int, touched: int, before: Any, needs: bool) -> Any:
    """Write the observation, `needs` only where they change, and figures; return what this step has cost, and success."""
    e = record_at(state.episodes, i)
    task, width = np.int64(e.task), state.slots.shape[1]
    count = min(np.int64(tables.slot_count[task]), width)
    # a step changes one row of `tools` as a rule; all others keep what the last step wrote there
    if touched >= 0:
        _show_calls(state, view, out, i, touched)
    elif touched != _NONE:
        if touched != COPIED:
            copy_row(out.tools, i, view.tools, task)
            if view.factored:
                copy_row(out.fixed, i, view.fixed, task)
        if touched != START:
            # 64 rows share a word of bits; each bit stands for every 64th row, which is written again for nothing at worst
            changed = e.seen_rows
            while changed:
                for row in range(lowest_bit(changed), count, 64):
                    _show_calls(state, view, out, i, row)
                changed &= changed - _ONE
            if e.priced:
                for slot in range(count):
                    epoch = state.slots[i, slot].seen_epoch
                    if epoch:
                        out.tools[i, view.rows[task, slot], view.price_column] = view.quote[task, epoch, slot]
    # until a fact is known or a wish changes, the needs are those of the start: one copy does
    if needs and not e.needs_changed:
        copy_row(out.needs, i, view.plain, task)
    elif needs:
        for need in range(6):
            bit = np.uint64(need)
            out.needs[i, need, 0] = view.plain[task, need, 0]
            out.needs[i, need, 1] = (e.seen_known >> bit) & _ONE
            out.needs[i, need, 2] = (np.uint64(e.seen_ready) >> bit) & _ONE

    # a logarithm costs more than the rest of these lines together
    if e.now != before[1]:
        e.log_now = np.float32(min(log(1.0 + e.now), view.highest))
    resources = out.resources
    resources[i, 0] = e.log_now
    resources[i, 1] = e.records * 0.25
    resources[i, 2] = e.steps / view.max_steps
    resources[i, 3] = max(1.0 - e.price * view.price_share, view.least)
    resources[i, 4] = max(1.0 - e.now * view.seconds_share, view.least)
    resources[i, 5] = 1.0
    resources[i, 6] = max(1.0 - e.calls * view.calls_share, view.least)
    resources[i, 7] = min(e.price * view.scale, view.highest)

    mask, at_start, epoch = out.mask, view.mask, np.int64(e.epoch)
    wanted = _wanted(view, e)
    spent_so_far, limit = world.spent_and_limit(rules, e)
    for row in range(width):  # without a branch, so that several rows are done at once
        covered = spent_so_far + view.dues[task, epoch, row] <= limit
        mask[i, row] = at_start[task, epoch, row] & ((view.serves[task, row] & wanted) != 0) & covered
    for action in range(width, mask.shape[1]):
        mask[i, action] = at_start[task, epoch, action]
    if view.concurrent:
        mask[i, width] = e.records > 0 or e.news > 0
    if rules.writes:
        _show_writes(tables, rules, state, view, out, i, touched < _NONE)

    return report(rules, view, out, e, i, before)


@internal
def _show_writes(tables: Any, rules: Any, state: Any, view: Any, out: Any, i: int, whole: bool) -> None:
    """Write the effects, the figures of the final state, and the mask's checks and undoes; with `whole` the roles too."""
    e = record_at(state.episodes, i)
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
    written[0, i], written[1, i], written[2, i], written[3, i] = world.figures(tables, state, i)
    needs_due = world.due(tables, state, i)
    if view.useful and (needs_due[0] | needs_due[1]) != 0:
        spent, limit = world.spent_and_limit(rules, e)
        for row in range(min(np.int64(tables.slot_count[task]), state.slots.shape[1])):
            if world.is_due(tables, state, i, np.int64(view.slots[task, row]), needs_due):
                covered = spent + view.dues[task, np.int64(e.epoch), row] <= limit
                out.mask[i, row] = view.mask[task, np.int64(e.epoch), row] & covered
