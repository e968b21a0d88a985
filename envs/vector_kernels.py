"""The numeric view of N episodes, compiled: what `marketplace.MarketplaceEnv` does in Python for one."""

# mypy: disable-error-code="misc,untyped-decorator,no-any-return"

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..simulators import batch_kernels as world
from ..simulators.batch import CALL, EPISODE, SLOT_STATE
from ..simulators.batch_memory import copy_row, prefetch
from ..simulators.batch_random import compiled, inlined, next_draw
from ..simulators.batch_tables import PRICE_CHANGE, SLOT
from ..simulators.status import LOOKS_OK, Status

_OK, _FAILED, _BANNED = 1, 2, 4
"""Bits of a candidate's flags: columns last_ok, last_failed and banned of the observation."""
_CODE = 64
_LOOKS_OK = sum(1 << int(status) for status in LOOKS_OK if status is not Status.EMPTY)
_ONE = np.uint64(1)
ALL = -2
"""Which row of `tools` to rewrite: all of them."""
_NONE = -1


_FAR, _NEAR = 12, 4
_EPISODE_BYTES, _SLOT_BYTES, _SPEC_BYTES, _CALL_BYTES = EPISODE.itemsize, SLOT_STATE.itemsize, SLOT.itemsize, CALL.itemsize


class View(NamedTuple):
    """What an observation is made of. Arrays over tasks (T), candidates (M), epochs (E + 1), needs (6).

    Attributes:
        tools: (T, M, 16) `observation["tools"]` at the start.
        plain: (T, 6, 3) `observation["needs"]` at the start.
        mask: (T * (E + 1), M + 2) the actions that are possible in an epoch, budgets and `wait` aside.
        quote: (T, E + 1, M) the price column by epoch.
        needs: (T,) how many needs the observation shows.
        choices: how many tasks a reset draws from; they come first in the tables.
        max_steps, scale, loss, alpha: of `MarketplaceEnv`.
        price_share, seconds_share, calls_share: 1 / limit, or 0.
        tokens_limit: infinite where there is none.
        judged: the lenient grade counts.
        resource: index of the resource that `cost_sum` reports.
    """

    tools: NDArray[np.float32]
    plain: NDArray[np.float32]
    mask: NDArray[np.bool_]
    quote: NDArray[np.float32]
    needs: NDArray[np.int32]
    choices: int
    max_steps: int
    scale: float
    loss: float
    alpha: float
    price_share: float
    seconds_share: float
    calls_share: float
    tokens_limit: float
    judged: bool
    resource: int


class Out(NamedTuple):
    """Where a step writes: observations, outcomes and figures of N episodes.

    Attributes:
        tools, needs, resources: (N, M, 16), (N, 6, 3), (N, 8).
        mask: (N, M + 2).
        rewards, terminated, truncated: (N,).
        figures: (8, N) cost_price, cost_seconds, cost_sum, budget_remaining_* and at_s.
        counts: (2, N) cost_calls and status.
        success: (N,).
    """

    tools: NDArray[np.float32]
    needs: NDArray[np.float32]
    resources: NDArray[np.float32]
    mask: NDArray[np.bool_]
    rewards: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    figures: NDArray[np.float64]
    counts: NDArray[np.int64]
    success: NDArray[np.bool_]


@compiled
def reset_where(
    tables: Any,
    rules: Any,
    state: Any,
    view: Any,
    out: Any,
    streams: Any,
    tasks: Any,
    seeds: Any,
    seeded: Any,
    where: Any,
    show_all: bool,
) -> Any:
    """Begin the episodes of `where`.

    Args:
        streams: (N, 4) each environment's generator; gives the task and the seed.
        tasks: (N,) a row of the tables, or -1 for one that the generator picks.
        seeds, seeded: (N,) the episode's seed, where it is given.
        show_all: write the others too, as they are.
    """
    records, idle = 0, 0
    for i in range(where.size):
        if where[i]:
            _begin(tables, rules, state, view, streams, i, tasks[i], seeds[i], seeded[i])
            _show(tables, rules, state, view, out, i, ALL)
            e = state.episodes[i]
            records, idle = max(records, e.in_flight + e.news), max(idle, e.cold + e.idle)
        elif show_all:
            _show(tables, rules, state, view, out, i, ALL)
    return records, idle


@compiled
def step_all(
    tables: Any, rules: Any, state: Any, view: Any, out: Any, streams: Any, actions: Any, autoreset: bool, fresh: bool
) -> Any:
    """One step of every episode; with `autoreset` those that ended before begin anew instead.

    Args:
        actions: (N,) integers.
        fresh: `out.tools` holds nothing yet, so every row is written.

    Returns:
        The largest numbers of calls and of instances, for `Batch.make_room`, and how many episodes have ended.
    """
    records, idle, ended = 0, 0, 0
    for i in range(actions.size):
        _look_ahead(tables, state, actions, i)
        e = state.episodes[i]
        if autoreset and e.ended:
            _begin(tables, rules, state, view, streams, i, -1, np.uint64(0), False)
            _show(tables, rules, state, view, out, i, ALL)
            out.rewards[i], out.terminated[i], out.truncated[i] = 0.0, False, False
        else:
            touched = _act(tables, rules, state, view, i, np.int64(actions[i]))
            spent, success = _show(tables, rules, state, view, out, i, ALL if fresh else touched)
            reward = -view.loss * spent
            out.rewards[i] = reward + view.alpha if success else reward
            out.terminated[i], out.truncated[i] = e.over, not e.over and e.steps >= view.max_steps
            e.ended = e.over or out.truncated[i]
            if e.ended:
                ended += 1
        records, idle = max(records, e.in_flight + e.news), max(idle, e.cold + e.idle)
    return records, idle, ended


@inlined
def _look_ahead(tables: Any, state: Any, actions: Any, i: int) -> None:
    """Fetch what the next episodes will touch: without this a large batch waits for memory most of the time."""
    far, near = i + _FAR, i + _NEAR
    if far >= actions.size:
        return
    for line in range(0, _EPISODE_BYTES, 64):
        prefetch(state.episodes, far, line)
    if 0 <= actions[far] < state.slots.shape[1]:
        prefetch(state.slots, far, np.int64(actions[far]) * _SLOT_BYTES)
    e = state.episodes[near]
    if 0 <= actions[near] < state.slots.shape[1]:
        place = np.int64(actions[near]) * _SPEC_BYTES
        prefetch(tables.slots, e.task, place)
        prefetch(tables.slots, e.task, place + 64)
        prefetch(state.calls, near, np.int64(e.records) * _CALL_BYTES)


@inlined
def _begin(tables: Any, rules: Any, state: Any, view: Any, streams: Any, i: int, row: int, seed: Any, seeded: bool) -> None:
    draw = next_draw(streams, i)
    task = np.int64(draw % np.uint64(view.choices)) if row < 0 else np.int64(row)
    world.begin(tables, rules, state, i, task, seed if seeded else draw)
    e = state.episodes[i]
    e.steps = 0
    e.status = 0
    e.ended = False
    e.last_price = e.last_now = 0.0
    e.last_calls = 0
    e.log_now = 0.0
    e.marks = e.seen_known = e.seen_ready = np.uint64(0)
    e.told = False


@inlined
def _ready(tables: Any, e: Any, epoch: int, known: Any) -> Any:
    """Bits of the needs whose arguments are all known."""
    ready = np.uint64(0)
    for need in range(min(6, tables.need_count[e.task])):
        after = tables.after[e.task, epoch, need]
        if (known & after) == after:
            ready |= _ONE << np.uint64(need)
    return ready


@inlined
def _act(tables: Any, rules: Any, state: Any, view: Any, i: int, action: int) -> int:
    """Play one action; returns the row of `tools` that changed, ALL, or -1 for none."""
    e = state.episodes[i]
    e.steps += 1
    width = state.slots.shape[1]
    if action == width + 1:
        world.finish(tables, rules, state, i)
    elif action == width:
        return _receive(tables, state, i, world.wait(tables, rules, state, i))
    elif 0 <= action < min(tables.slot_count[e.task], width):
        refusal = world.submit(tables, rules, state, i, action)
        _mark(state, e, action)
        if refusal >= 0:
            e.status = refusal
            s = state.slots[i, action]
            s.flags = (s.flags & _BANNED) | _FAILED
        return action
    else:
        world.refuse(tables, rules, state, i)
        e.status = world.UNKNOWN_TOOL
    return _NONE


@inlined
def _receive(tables: Any, state: Any, i: int, news: int) -> int:
    if news == world.NOTHING:
        return _NONE
    e = state.episodes[i]
    if news >= 0:
        slot, status = news // _CODE, news % _CODE
        s = state.slots[i, slot]
        e.status = status
        s.received += 1
        looks_ok = ((_LOOKS_OK >> status) & 1) == 1
        s.flags = (s.flags & _BANNED) | (_OK if looks_ok else _FAILED)
        touched = slot
    else:
        event = -1 - news
        for slot in range(min(tables.slot_count[e.task], state.slots.shape[1])):
            if tables.event_hits[e.task, event, slot]:
                s = state.slots[i, slot]
                _mark(state, e, slot)
                if tables.event_kind[e.task, event] == PRICE_CHANGE:
                    s.seen_epoch = e.epoch
                elif tables.banned[e.task, e.epoch, slot]:
                    s.flags |= _BANNED
                else:
                    s.flags &= ~_BANNED
        touched = ALL
    if e.known != e.seen_known:
        e.seen_known, e.told = e.known, True
        e.seen_ready = _ready(tables, e, e.epoch, e.known)
    return touched


@inlined
def _show(tables: Any, rules: Any, state: Any, view: Any, out: Any, i: int, touched: int) -> Any:
    """Write what is seen of an episode after a step or a reset; returns what was spent since the last look, and success."""
    e = state.episodes[i]
    count, width = np.int64(tables.slot_count[e.task]), state.slots.shape[1]
    if touched == ALL:
        copy_row(out.tools, i, view.tools, np.int64(e.task))
        group, marks = (width + 63) // 64, e.marks
        while marks:
            bit = _lowest(marks)
            marks &= marks - _ONE
            for slot in range(bit * group, min(width, (bit + 1) * group)):
                _show_tool(state, view, out, i, slot, e.task)
    elif touched >= 0:
        _show_tool(state, view, out, i, touched, e.task)
    if not e.told:
        copy_row(out.needs, i, view.plain, np.int64(e.task))
    else:
        needs = view.needs[e.task]
        for need in range(6):
            there, bit_ = need < needs, np.uint64(need)
            out.needs[i, need, 0] = 1.0 if there else 0.0
            out.needs[i, need, 1] = 1.0 if there and (e.seen_known >> bit_) & _ONE else 0.0
            out.needs[i, need, 2] = 1.0 if there and (e.seen_ready >> bit_) & _ONE else 0.0

    if e.now != e.last_now:
        e.log_now = np.float32(math.log1p(e.now))
    resources = out.resources
    resources[i, 0] = e.log_now
    resources[i, 1] = e.in_flight * 0.25
    resources[i, 2] = e.steps / view.max_steps
    resources[i, 3] = 1.0 - e.price * view.price_share
    resources[i, 4] = 1.0 - e.now * view.seconds_share
    resources[i, 5] = 1.0
    resources[i, 6] = 1.0 - e.calls * view.calls_share
    resources[i, 7] = e.price * view.scale

    copy_row(out.mask, i, view.mask, np.int64(e.task) * view.quote.shape[1] + e.epoch)
    if rules.refuse:
        for slot in range(min(count, width)):
            if out.mask[i, slot]:
                out.mask[i, slot] = world.affordable(tables, rules, state, i, slot)
    out.mask[i, width] = e.in_flight > 0 or e.news > 0

    success = e.over and e.exceeded == 0 and (e.judged if view.judged else e.strict)
    spent = e.price - e.last_price
    out.success[i] = success
    figures = out.figures
    figures[0, i], figures[1, i] = spent, e.now - e.last_now
    total = e.price
    if view.resource == 1:
        total = e.now
    elif view.resource == 2:
        total = 0.0
    elif view.resource == 3:
        total = np.float64(e.calls)
    figures[2, i] = total
    figures[3, i], figures[4, i] = rules.price_limit - e.price, rules.seconds_limit - e.now
    figures[5, i], figures[6, i] = view.tokens_limit, rules.calls_limit - e.calls
    figures[7, i] = e.now
    out.counts[0, i], out.counts[1, i] = e.calls - e.last_calls, e.status
    e.last_price, e.last_now, e.last_calls = e.price, e.now, e.calls
    return spent, success


@inlined
def _show_tool(state: Any, view: Any, out: Any, i: int, slot: int, row: int) -> None:
    """Write the columns that change."""
    s = state.slots[i, slot]
    out.tools[i, slot, 11] = s.count * 0.25
    out.tools[i, slot, 12] = s.count - s.received
    out.tools[i, slot, 13] = s.flags & _OK
    out.tools[i, slot, 14] = (s.flags & _FAILED) >> 1
    out.tools[i, slot, 15] = (s.flags & _BANNED) >> 2
    if s.seen_epoch:
        out.tools[i, slot, 1] = view.quote[row, s.seen_epoch, slot]


@inlined
def _mark(state: Any, e: Any, slot: int) -> None:
    """Note that a candidate's row differs from the start; one bit stands for as many candidates as 64 bits require."""
    e.marks |= _ONE << np.uint64(slot // ((state.slots.shape[1] + 63) // 64))


@inlined
def _lowest(bits: Any) -> int:
    """The place of the lowest bit that is set."""
    lone, place = bits & (~bits + _ONE), 0
    if lone >> np.uint64(32):
        place += 32
        lone >>= np.uint64(32)
    if lone >> np.uint64(16):
        place += 16
        lone >>= np.uint64(16)
    if lone >> np.uint64(8):
        place += 8
        lone >>= np.uint64(8)
    if lone >> np.uint64(4):
        place += 4
        lone >>= np.uint64(4)
    if lone >> np.uint64(2):
        place += 2
        lone >>= np.uint64(2)
    return place + 1 if lone >> _ONE else place
