"""The rules of `world` for one of N episodes, compiled.

Every function plays episode `i` of a `State`. Whoever changes a rule here changes it in `episode` too, and the other way
round: the two are equal call by call, to the last bit. Sums are therefore made in the same order, and nothing is fused.
"""

# mypy: disable-error-code="misc,untyped-decorator,no-any-return"

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .batch_random import compiled, inlined, uniforms
from .batch_tables import INVISIBLE
from .calls import CONNECTION_REFUSED_S, QUANTILES
from .failures import ALIVE, DEAD, DEGRADED
from .status import Status

NOTHING = -(1 << 30)
"""What `wait` returns where there is no news."""
PRICE, SECONDS, _, CALLS = range(1, 5)
"""Limits that were exceeded; 0 for none. In the order of `ledger.RESOURCES`."""

UNKNOWN_TOOL = int(Status.UNKNOWN_TOOL)
_OK, _BANNED, _OVER_BUDGET = int(Status.OK), int(Status.BANNED), int(Status.OVER_BUDGET)
_WRONG, _NO_DATA = int(Status.WRONG_ARGUMENTS), int(Status.NO_DATA)
_RATE_LIMITED, _QUOTA = int(Status.RATE_LIMITED), int(Status.QUOTA_EXCEEDED)
_REFUSED_CONNECTION, _TIMEOUT, _OUTAGE = int(Status.CONNECTION_ERROR), int(Status.TIMEOUT), int(Status.OUTAGE)
_FIRST_FAILURE = 32
_WAITING = -1
_UNSEEN = -1
_ONE = np.uint64(1)
_CODE = 64
"""A completion is handed out as slot * 64 + status, an event as -1 - its index."""


@compiled
def begin(tables: Any, rules: Any, state: Any, i: int, row: int, seed: Any) -> None:
    """Start the task in a row of the tables on a fresh clock."""
    e = state.episodes[i]
    e.seed, e.task = seed, row
    e.now = e.price = e.reserved = e.gpu_used = 0.0
    e.next_at = np.inf
    e.burst_begin = e.burst_end = e.burst_before = 0.0
    e.known = np.uint64(0)
    e.calls = e.attempts = e.in_flight = e.records = e.waiting = 0
    e.order = e.burst = e.news = e.news_at = e.idle = e.cold = 0
    e.epoch = 0
    e.over = e.strict = e.judged = False
    e.exceeded = 0
    for slot in range(state.slots.shape[1]):
        s = state.slots[i, slot]
        s.count = s.started = s.busy = s.received = 0
        s.window_at = s.window = 0
        s.chain = s.usual = _UNSEEN
        s.last_ok = False
        s.seen_epoch = 0
        s.flags = 0
    while e.epoch < tables.event_count[row] and tables.event_at[row, e.epoch] <= 0.0:
        _happen(tables, state, i)


# -- time ----------------------------------------------------------------------------------------------------------------------


@inlined
def _event_at(tables: Any, e: Any) -> float:
    return tables.event_at[e.task, e.epoch] if e.epoch < tables.event_count[e.task] else np.inf


@compiled
def _step(tables: Any, rules: Any, state: Any, i: int) -> None:
    """Process the next event. Scheduled events were there before any call, so they come first at the same time."""
    e = state.episodes[i]
    at = _event_at(tables, e)
    if at <= e.next_at:
        e.now = at
        _happen(tables, state, i)
    else:
        e.now = e.next_at
        _complete(tables, rules, state, i)


@compiled
def _reach(tables: Any, rules: Any, state: Any, i: int, at: float) -> None:
    e = state.episodes[i]
    while not e.over and min(e.next_at, _event_at(tables, e)) <= at:
        _step(tables, rules, state, i)
    if e.now < at and not e.over:
        e.now = e.now + (at - e.now)  # as the clock adds it up


@compiled
def advance(tables: Any, rules: Any, state: Any, i: int, seconds: float) -> None:
    """Let time pass."""
    e = state.episodes[i]
    if e.now + seconds > rules.deadline_s:
        _reach(tables, rules, state, i, rules.deadline_s)
        if not e.over:
            _end(tables, rules, state, i, SECONDS)
        return
    target, order = e.now + seconds, e.order
    e.order += 1
    while not e.over:
        event_at = _event_at(tables, e)
        if event_at <= e.next_at:
            if event_at > target:
                break
        elif e.next_at > target or (e.next_at == target and state.calls[i, e.next].order > order):
            break
        _step(tables, rules, state, i)
    if not e.over:
        e.now = target


# -- calls ---------------------------------------------------------------------------------------------------------------------


@inlined
def refuse(tables: Any, rules: Any, state: Any, i: int) -> None:
    """A call of a tool that is not on offer."""
    state.episodes[i].attempts += 1
    advance(tables, rules, state, i, rules.gateway_s)


@inlined
def submit(tables: Any, rules: Any, state: Any, i: int, slot: int) -> int:
    """Ask for a call of a candidate; the status of a refusal, or -1 where the call is on its way."""
    e = state.episodes[i]
    e.attempts += 1
    refusal = _gateway(tables, rules, state, i, slot)
    if refusal >= 0:
        advance(tables, rules, state, i, rules.gateway_s)
        return refusal
    spec, s = tables.slots[e.task, slot], state.slots[i, slot]
    s.count += 1
    e.in_flight += 1
    if spec.cold_start_s:
        e.cold += 1
    e.reserved += tables.quote[e.task, e.epoch, slot]
    index = e.records
    e.records += 1
    call = state.calls[i, index]
    call.slot, call.submitted, call.submit_epoch, call.order = slot, e.attempts, e.epoch, _WAITING
    if (spec.concurrency and s.busy >= spec.concurrency) or (
        rules.gpu_capacity_mb >= 0.0 and not _gpu_fits(tables, rules, state, i, slot, e.attempts)
    ):
        e.waiting += 1
    else:
        _start(tables, rules, state, i, index)
    return -1


@inlined
def _gateway(tables: Any, rules: Any, state: Any, i: int, slot: int) -> int:
    e = state.episodes[i]
    spec, s = tables.slots[e.task, slot], state.slots[i, slot]
    if tables.banned[e.task, e.epoch, slot]:
        return _BANNED
    if spec.quota and s.count >= spec.quota:
        return _QUOTA
    if rules.refuse and not affordable(tables, rules, state, i, slot):
        return _OVER_BUDGET
    if spec.rate_limit:
        ring = state.windows[i]
        base, size = spec.window_at, spec.rate_limit
        edge = e.now - spec.window_s
        while s.window and ring[base + s.window_at] <= edge:
            s.window_at = (s.window_at + 1) % size
            s.window -= 1
        if s.window >= size:
            return _RATE_LIMITED
        ring[base + (s.window_at + s.window) % size] = e.now
        s.window += 1
    return -1


@inlined
def affordable(tables: Any, rules: Any, state: Any, i: int, slot: int) -> bool:
    """Whether a call fits the budget at its quoted price, beside what is already running."""
    e = state.episodes[i]
    if e.price + e.reserved + tables.quote[e.task, e.epoch, slot] > rules.price_limit:
        return False
    return e.calls + e.in_flight + 1 <= rules.calls_limit


@inlined
def _gpu_fits(tables: Any, rules: Any, state: Any, i: int, slot: int, before: int) -> bool:
    """Whether GPU memory is there for a call, behind those that wait for memory and were submitted earlier."""
    e = state.episodes[i]
    size = tables.slots[e.task, slot].gpu_mb
    if rules.gpu_capacity_mb < 0.0 or size == 0.0:
        return True
    for index in range(e.records):
        call = state.calls[i, index]
        if call.order == _WAITING and call.submitted < before:
            other = tables.slots[e.task, call.slot]
            if other.gpu_mb and not (other.concurrency and state.slots[i, call.slot].busy >= other.concurrency):
                return False
    return e.gpu_used + size <= rules.gpu_capacity_mb or e.gpu_used == 0.0


@compiled
def _start_waiting(tables: Any, rules: Any, state: Any, i: int) -> None:
    """Start, in the order of submission, what can run now."""
    e = state.episodes[i]
    last = -1
    while True:
        index, earliest = -1, 1 << 40
        for other in range(e.records):
            call = state.calls[i, other]
            if call.order == _WAITING and last < call.submitted < earliest:
                index, earliest = other, call.submitted
        if index < 0:
            return
        last = earliest
        slot = state.calls[i, index].slot
        spec = tables.slots[e.task, slot]
        blocked = False
        if spec.concurrency:
            blocked = state.slots[i, slot].busy >= spec.concurrency
            for other in range(e.records):
                call = state.calls[i, other]
                if call.order == _WAITING and call.slot == slot and call.submitted < earliest:
                    blocked = True
        if not blocked and _gpu_fits(tables, rules, state, i, slot, earliest):
            e.waiting -= 1
            _start(tables, rules, state, i, index)


@inlined
def _start(tables: Any, rules: Any, state: Any, i: int, index: int) -> None:
    e, call = state.episodes[i], state.calls[i, index]
    slot = call.slot
    spec, s = tables.slots[e.task, slot], state.slots[i, slot]
    s.busy += 1
    s.started += 1
    e.gpu_used += spec.gpu_mb
    delay = 0.0
    if spec.cold_start_s and not _take_idle(state, i, slot, e.now, spec.keep_alive_s):
        delay = spec.cold_start_s
    ready = e.now + delay
    k, row = s.started, np.int64(tables.slot_count[e.task] + 1)
    number = tables.number[e.task]
    u_outcome, u_kind, u_duration, u_content = uniforms(e.seed, number, np.int64(k) * row + slot)
    duration = spec.latency_s * math.exp(spec.spread * tables.normal[int(u_duration * QUANTILES)])
    call.need = -1

    # the latent chain: its state and its usual way to fail come from row 0
    if s.chain == _UNSEEN:
        u_state, u_usual, _, _ = uniforms(e.seed, number, slot)
        s.chain = ALIVE if u_state < spec.alive_edge else DEGRADED if u_state < spec.degraded_edge else DEAD
        s.usual = _pick(tables, u_usual)
    chance = 1.0 - rules.slip if s.chain == ALIVE else 0.5 if s.chain == DEGRADED else rules.slip
    if k > 1:
        pull = rules.persistence
        chance = chance + pull * (1.0 - chance) if s.last_ok else chance - pull * chance
    s.last_ok = u_outcome < chance

    status = _OK
    if rules.burst_every_s > 0.0 and _in_burst(tables, rules, state, i, ready):
        status = _OUTAGE
    elif not s.last_ok:
        status = s.usual if u_kind < rules.sticky else _pick(tables, (u_kind - rules.sticky) / (1.0 - rules.sticky))
    elif spec.need >= 0:
        after = tables.after[e.task, e.epoch, spec.need]
        if (e.known & after) == after:
            call.need = spec.need
        else:
            status = _WRONG if u_content < 0.5 else _NO_DATA

    if status == _REFUSED_CONNECTION:
        duration = CONNECTION_REFUSED_S
    elif status == _TIMEOUT or duration > spec.timeout_s:
        duration, status = spec.timeout_s, _TIMEOUT
        call.need = -1
    call.status, call.start_epoch = status, e.epoch
    if rules.faas:
        factor = tables.factor[e.task, e.epoch, slot]
        billed = duration + delay if rules.bill_cold_start else duration
        state.money[i, index, 0] = factor * (spec.fee + spec.rate_per_s * billed) if spec.rate_per_s else factor * spec.fee
        state.money[i, index, 1] = e.now if rules.bill_cold_start else ready
    call.at = e.now + (delay + duration)
    call.order = e.order
    e.order += 1
    if call.at < e.next_at:
        e.next_at, e.next = call.at, index


@inlined
def _take_idle(state: Any, i: int, slot: int, now: float, keep_alive_s: float) -> bool:
    """Take the most recently used idle instance if it is still warm; if it is not, none is."""
    e = state.episodes[i]
    count = e.idle
    for place in range(count - 1, -1, -1):
        if state.idle_slot[i, place] == slot:
            warm = now - state.idle_at[i, place] <= keep_alive_s
            kept = place
            for other in range(place + 1, count):
                state.idle_slot[i, kept], state.idle_at[i, kept] = state.idle_slot[i, other], state.idle_at[i, other]
                kept += 1
            e.idle = kept
            if warm:
                return True
            kept = 0
            for other in range(e.idle):
                if state.idle_slot[i, other] != slot:
                    state.idle_slot[i, kept], state.idle_at[i, kept] = state.idle_slot[i, other], state.idle_at[i, other]
                    kept += 1
            e.idle = kept
            return False
    return False


@inlined
def _pick(tables: Any, luck: float) -> int:
    last = tables.kind_edge.size - 1
    for kind in range(last):
        if luck < tables.kind_edge[kind]:
            return tables.kind_status[kind]
    return tables.kind_status[last]


@inlined
def _in_burst(tables: Any, rules: Any, state: Any, i: int, at: float) -> bool:
    """Bursts follow one another, so only the first that ends after `at` matters; the current one is kept."""
    e = state.episodes[i]
    if e.burst > 0 and at < e.burst_before:  # before the burst kept: begin again
        e.burst = 0
    if e.burst == 0:
        e.burst_before, e.burst_begin, e.burst_end = -np.inf, 0.0, 0.0
    while e.burst == 0 or e.burst_end <= at:
        slots = np.int64(tables.slot_count[e.task])
        _, _, u_gap, u_length = uniforms(e.seed, tables.number[e.task], np.int64(e.burst) * (slots + 1) + slots)
        if e.burst > 0:
            e.burst_before = e.burst_end
        e.burst_begin = e.burst_end - rules.burst_every_s * math.log(1.0 - u_gap)
        e.burst_end = e.burst_begin - rules.burst_lasts_s * math.log(1.0 - u_length)
        e.burst += 1
    return e.burst_begin <= at


@compiled
def _complete(tables: Any, rules: Any, state: Any, i: int) -> None:
    """The next call ends."""
    e = state.episodes[i]
    index = e.next
    call = state.calls[i, index]
    row, slot, status, need, submit_epoch = e.task, call.slot, call.status, call.need, call.submit_epoch
    spec, s = tables.slots[row, slot], state.slots[i, slot]
    if status >= _FIRST_FAILURE and not rules.bill_failures:
        price = 0.0
    elif rules.faas:
        price = state.money[i, index, 0]
    else:
        price = tables.factor[row, call.start_epoch, slot] * spec.fee
    _remove(state, i, index, rules.faas)
    s.busy -= 1
    if spec.gpu_mb and rules.gpu_capacity_mb >= 0.0:
        running = False
        for other in range(state.slots.shape[1]):
            if state.slots[i, other].busy and tables.slots[row, other].gpu_mb:
                running = True
        e.gpu_used = e.gpu_used - spec.gpu_mb if running else 0.0
    if spec.cold_start_s:
        e.cold -= 1
        state.idle_at[i, e.idle], state.idle_slot[i, e.idle] = e.now, slot
        e.idle += 1
    e.in_flight -= 1
    e.reserved = e.reserved - tables.quote[row, submit_epoch, slot] if e.in_flight else 0.0
    if need >= 0 and tables.version[row, submit_epoch, need] == tables.version[row, e.epoch, need]:
        e.known |= _ONE << np.uint64(need)
    e.price += price
    e.calls += 1
    _tell(state, i, np.int64(slot) * _CODE + status)
    exceeded = 0 if rules.record else _exceeded(rules, e, 0.0)
    if exceeded:
        _end(tables, rules, state, i, exceeded)
    elif e.waiting:
        _start_waiting(tables, rules, state, i)


@inlined
def _remove(state: Any, i: int, index: int, faas: bool) -> None:
    """Drop a call's record and find the next to end."""
    e = state.episodes[i]
    e.records -= 1
    last = e.records
    if index != last:
        state.calls[i, index] = state.calls[i, last]
        if faas:
            state.money[i, index, 0], state.money[i, index, 1] = state.money[i, last, 0], state.money[i, last, 1]
    best, at, order = -1, np.inf, 0
    for other in range(last):
        call = state.calls[i, other]
        if call.order != _WAITING and (call.at < at or (call.at == at and call.order < order)):
            best, at, order = other, call.at, call.order
    e.next, e.next_at = best, at


@inlined
def _tell(state: Any, i: int, code: int) -> None:
    e = state.episodes[i]
    place = e.news_at + e.news
    size = state.news.shape[1]
    state.news[i, place - size if place >= size else place] = code
    e.news += 1


@inlined
def wait(tables: Any, rules: Any, state: Any, i: int) -> int:
    """Go to the next completion or visible event: slot * 64 + status, -1 - the event's index, or NOTHING."""
    e = state.episodes[i]
    if e.news == 0 and e.in_flight == 0:
        return NOTHING
    while e.news == 0:
        if min(e.next_at, _event_at(tables, e)) > rules.deadline_s:
            _reach(tables, rules, state, i, rules.deadline_s)
            _end(tables, rules, state, i, SECONDS)
            return NOTHING
        _step(tables, rules, state, i)
    code = state.news[i, e.news_at]
    e.news_at = e.news_at + 1 if e.news_at + 1 < state.news.shape[1] else 0
    e.news -= 1
    return int(code)


# -- events and the end --------------------------------------------------------------------------------------------------------


@inlined
def _happen(tables: Any, state: Any, i: int) -> None:
    """The next scheduled event: prices, bans and wishes follow from the epoch; a wish that changed is not known any more."""
    e = state.episodes[i]
    row, event = e.task, np.int64(e.epoch)
    e.epoch += 1
    for need in range(tables.need_count[row]):
        if tables.version[row, event, need] != tables.version[row, event + 1, need]:
            e.known &= ~(_ONE << np.uint64(need))
    if tables.event_kind[row, event] != INVISIBLE:
        _tell(state, i, -1 - event)


@inlined
def finish(tables: Any, rules: Any, state: Any, i: int) -> None:
    """End with an answer that holds every fact learnt so far."""
    e = state.episodes[i]
    row, known, found = e.task, e.known, 0
    while known:
        known &= known - _ONE
        found += 1
    slots = np.int64(tables.slot_count[row])
    _, luck, _, _ = uniforms(e.seed, tables.number[row], slots)
    e.strict = found > 0 and found == tables.need_count[row]
    e.judged = luck < tables.pass_chance[row, found]
    _end(tables, rules, state, i, 0)


@inlined
def _exceeded(rules: Any, e: Any, seconds: float) -> int:
    if e.price > rules.price_limit:
        return PRICE
    if seconds > rules.seconds_limit:
        return SECONDS
    if e.calls > rules.calls_limit:
        return CALLS
    return 0


@compiled
def _end(tables: Any, rules: Any, state: Any, i: int, exceeded: int) -> None:
    e = state.episodes[i]
    e.over = True
    # cut off what runs, in the order of submission: flat fees in full, pay-per-use for the time so far
    for _ in range(e.records):
        index, earliest = -1, 1 << 40
        for other in range(e.records):
            submitted = state.calls[i, other].submitted
            if 0 <= submitted < earliest:
                index, earliest = other, submitted
        call = state.calls[i, index]
        call.submitted = -1
        if call.order != _WAITING:
            spec = tables.slots[e.task, call.slot]
            elapsed = max(0.0, e.now - state.money[i, index, 1]) if rules.faas else 0.0
            e.price += tables.factor[e.task, call.start_epoch, call.slot] * (spec.fee + spec.rate_per_s * elapsed)
            e.calls += 1
    e.records = e.in_flight = e.waiting = e.cold = 0
    e.reserved, e.next_at = 0.0, np.inf
    e.exceeded = exceeded if exceeded else _exceeded(rules, e, e.now)
