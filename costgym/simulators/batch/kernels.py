"""The rules of `world` for one of N episodes, compiled.

Every function plays episode `i` of a `State`. Whoever changes a rule here changes it in `episode` too, and the other way
round: the two are equal call by call, to the last bit. Sums are therefore made in the same order, and nothing is fused.
"""

# mypy: disable-error-code="misc,untyped-decorator,no-any-return"

from typing import Any

import numpy as np

from costgym.simulators.batch.failures import in_burst, pick
from costgym.simulators.batch.gateway import WAITING, gateway, gpu_fits, spent_and_limit
from costgym.simulators.batch.memory import clear_row
from costgym.simulators.batch.rng import inlined, internal, uniforms
from costgym.simulators.batch.tables import INVISIBLE
from costgym.simulators.batch.writes import aim, bits, decide, met, take_effect
from costgym.simulators.calls import CONNECTION_REFUSED_S, QUANTILES
from costgym.simulators.status import Status

__all__ = ["gateway", "spent_and_limit"]
NOTHING = -(1 << 30)  # result of `wait` where nothing is in flight and no event is to come
PRICE, SECONDS, TOKENS, CALLS = range(1, 5)
"""Numbers of the limit that was passed, in the order of `ledger.RESOURCES`; 0 for none."""

UNKNOWN_TOOL, FORBIDDEN = int(Status.UNKNOWN_TOOL), int(Status.FORBIDDEN)
_OK = int(Status.OK)
_WRONG, _NO_DATA = int(Status.WRONG_ARGUMENTS), int(Status.NO_DATA)
_REFUSED_CONNECTION, _TIMEOUT, _OUTAGE = int(Status.CONNECTION_ERROR), int(Status.TIMEOUT), int(Status.OUTAGE)
_FIRST_FAILURE = 32
_UNSEEN, _ALIVE, _DEGRADED, _DEAD = range(4)  # states of a candidate's latent chain; the first before it has been called
_ONE = np.uint64(1)
_CODE = 64  # `wait` returns slot * 64 + status for a completion, and -1 - its index for an event


@internal
def begin(tables: Any, rules: Any, state: Any, i: int, row: int, seed: Any) -> None:
    """Start the task in a row of the tables on a fresh clock."""
    # nearly every field starts at zero, and one block of zeros is cheaper than a store for each
    clear_row(state.episodes, i)
    clear_row(state.slots, i)
    e = state.episodes[i]
    e.seed, e.task, e.next = seed, row, -1
    if rules.burst_every_s > 0.0:
        clear_row(state.bursts, i)
    if rules.writes:
        clear_row(state.entities, i)
        clear_row(state.keys, i)
    if rules.gpu_capacity_mb >= 0.0:
        state.gpu_used[i] = 0.0
    while e.epoch < tables.event_count[row] and tables.event_at[row, e.epoch] <= 0.0:
        _happen(tables, state, i)


@inlined
def places_used(e: Any) -> int:
    """The places that calls in flight and idle instances take, or calls in flight and completions that no `wait` has returned.

    The ring of `news` has a place for each event too, so events count only as far as they are more than have happened.
    """
    return e.records + max(e.idle, e.news - e.epoch)


# -- time ----------------------------------------------------------------------------------------------------------------------


@inlined
def _event_at(tables: Any, e: Any) -> float:
    return tables.event_at[e.task, e.epoch] if e.epoch < tables.event_count[e.task] else np.inf


@inlined
def _next_at(state: Any, i: int) -> float:
    """The time at which the next call ends."""
    following = state.episodes[i].next
    return state.times[i, following] if following >= 0 else np.inf


@internal
def _step(tables: Any, rules: Any, state: Any, i: int) -> None:
    """Process the next event. Scheduled events were there before any call, so they come first at the same time."""
    e = state.episodes[i]
    at, ends_at = _event_at(tables, e), _next_at(state, i)
    if at <= ends_at:
        e.now = at
        _happen(tables, state, i)
    else:
        e.now = ends_at
        _complete(tables, rules, state, i)


@internal
def _reach(tables: Any, rules: Any, state: Any, i: int, at: float) -> None:
    e = state.episodes[i]
    while not e.over and min(_next_at(state, i), _event_at(tables, e)) <= at:
        _step(tables, rules, state, i)
    if e.now < at and not e.over:
        e.now = e.now + (at - e.now)  # in the order in which the clock adds


@internal
def advance(tables: Any, rules: Any, state: Any, i: int, seconds: float) -> None:
    """Let time pass."""
    e = state.episodes[i]
    if e.now + seconds > rules.deadline_s:
        _reach(tables, rules, state, i, rules.deadline_s)
        if not e.over:
            _end(tables, rules, state, i, SECONDS)
        return
    # the pause takes a place among simultaneous events, as a timeout of SimPy does: what was scheduled before it comes first
    target, order = e.now + seconds, e.order
    e.order += 1
    while not e.over:
        event_at, ends_at = _event_at(tables, e), _next_at(state, i)
        if event_at <= ends_at:
            if event_at > target:
                break
        elif ends_at > target or (ends_at == target and state.calls[i, e.next].order > order):
            break
        _step(tables, rules, state, i)
    if not e.over:
        e.now = target


@inlined
def rest(state: Any, i: int, until: float) -> None:
    """Let time pass to a moment before which nothing ends and no event comes."""
    state.episodes[i].now = until


# -- calls ---------------------------------------------------------------------------------------------------------------------


@inlined
def refuse(tables: Any, rules: Any, state: Any, i: int) -> None:
    """Refuse a call of a tool that is not on offer."""
    advance(tables, rules, state, i, rules.gateway_s)


@inlined
def submit(tables: Any, rules: Any, state: Any, i: int, slot: int) -> int:
    """Start a call of a candidate; returns the status of a refusal, or -1 where the call is on its way."""
    refusal = gateway(tables, rules, state, i, slot)
    if refusal >= 0:
        advance(tables, rules, state, i, rules.gateway_s)
    else:
        admit(tables, rules, state, i, slot)
    return refusal


@inlined
def admit(tables: Any, rules: Any, state: Any, i: int, slot: int) -> None:
    """Start a call that the gateway has let through."""
    e = state.episodes[i]
    spec, s = tables.slots[e.task, slot], state.slots[i, slot]
    s.count += 1
    # held back until the call ends, so that calls that run side by side cannot pass the limit together
    e.reserved += tables.quote[e.task, e.epoch, slot]
    index = e.records
    e.records += 1
    call = state.calls[i, index]
    state.numbers[i, index] = slot
    call.submit_epoch, call.order, call.aim = e.epoch, WAITING, aim(tables, rules, state, i, slot)
    blocked = (spec.concurrency and s.busy >= spec.concurrency) or (rules.slots > 0 and index >= rules.slots)
    if blocked or not gpu_fits(tables, rules, state, i, slot, index):
        e.waiting += 1
    else:
        _start(tables, rules, state, i, index)


@internal
def _start_waiting(tables: Any, rules: Any, state: Any, i: int) -> None:
    """Start the calls that can run now, in the order of submission."""
    e, ahead = state.episodes[i], 0  # calls that go on waiting
    for index in range(e.records):
        if state.calls[i, index].order != WAITING:
            continue
        slot = np.int64(state.numbers[i, index])
        spec = tables.slots[e.task, slot]
        # a call that waits for memory holds its slot, so the machine's slots are handed out in order
        blocked = rules.slots > 0 and e.records - e.waiting + ahead >= rules.slots
        if spec.concurrency and not blocked:
            blocked = state.slots[i, slot].busy >= spec.concurrency
            # calls of one tool start in the order of submission
            for before in range(index):
                blocked |= state.calls[i, before].order == WAITING and state.numbers[i, before] == slot
        if not blocked and gpu_fits(tables, rules, state, i, slot, index):
            e.waiting -= 1
            _start(tables, rules, state, i, index)
        else:
            ahead += 1


# A call's whole fate is decided when it starts, from its own four uniforms, so nothing that happens meanwhile can change it;
# only the end of the episode cuts it off. Philox is counter-based: the uniforms cost one block wherever they lie.
@inlined
def _start(tables: Any, rules: Any, state: Any, i: int, index: int) -> None:
    e, call = state.episodes[i], state.calls[i, index]
    slot = np.int64(state.numbers[i, index])
    spec, s = tables.slots[e.task, slot], state.slots[i, slot]
    s.busy += 1
    s.started += 1
    if rules.gpu_capacity_mb >= 0.0:
        state.gpu_used[i] += spec.gpu_mb
    # the sum is kept apart and added to the clock at once below, in the order in which SimPy adds
    delay = 0.0
    if spec.cold_start_s and not _take_idle(state, i, slot, e.now, spec.keep_alive_s):
        delay = spec.cold_start_s
    ready = e.now + delay
    k, row = s.started, np.int64(tables.slot_count[e.task] + 1)
    number = tables.number[e.task]
    u_outcome, u_kind, u_duration, u_content = uniforms(e.seed, number, np.int64(k) * row + slot)
    duration = spec.latency_s * tables.factors[spec.spread, int(u_duration * QUANTILES)]
    wanted = np.int64(call.aim)
    call.need = -1

    # the latent chain: its state and its usual way to fail come from row 0
    if s.chain == _UNSEEN:
        u_state, u_usual, _, _ = uniforms(e.seed, number, slot)
        s.chain = _ALIVE if u_state < spec.alive_edge else _DEGRADED if u_state < spec.degraded_edge else _DEAD
        s.usual = pick(tables, e.task, u_usual)
    chance = 1.0 - spec.slip if s.chain == _ALIVE else 0.5 if s.chain == _DEGRADED else spec.slip
    if k > 1:
        # failures come in runs: the chance is pulled towards the outcome of the tool's call before
        pull = spec.persistence
        chance = chance + pull * (1.0 - chance) if s.last_ok else chance - pull * chance
    s.last_ok = u_outcome < chance

    status = _OK
    if rules.burst_every_s > 0.0 and in_burst(tables, rules, state, i, spec, ready):
        status = _OUTAGE
    elif not s.last_ok:
        status = s.usual if u_kind < rules.sticky else pick(tables, e.task, (u_kind - rules.sticky) / (1.0 - rules.sticky))
    elif wanted >= 0:
        after = tables.after[e.task, e.epoch, wanted]
        if (e.known & after) == after:
            call.need = wanted
        else:
            status = _WRONG if u_content < 0.5 else _NO_DATA

    if status == _REFUSED_CONNECTION:
        duration = CONNECTION_REFUSED_S
    elif status == _TIMEOUT or duration > spec.timeout_s:
        duration, status = spec.timeout_s, _TIMEOUT
        call.need = -1
    call.status, call.start_epoch = status, e.epoch
    if rules.writes:
        decide(tables, state, i, call, slot, status, u_content)
    if rules.track_bills:
        factor = tables.factor[e.task, e.epoch, slot]
        billed = duration + delay if rules.bill_cold_start else duration
        bill = state.bills[i, index]
        bill.price = factor * (spec.fee + spec.rate_per_s * billed) if spec.rate_per_s else factor * spec.fee
        bill.started, bill.ready = e.now, ready
    ends_at = e.now + (delay + duration)
    call.order = e.order
    e.order += 1
    # the next to end is kept, so that a step need not look through all calls in flight
    if ends_at < _next_at(state, i):
        e.next = index
    state.times[i, index] = ends_at


@inlined
def _take_idle(state: Any, i: int, slot: int, now: float, keep_alive_s: float) -> bool:
    """Take the most recently used idle instance, if it is still warm. If it is not, no instance is."""
    e, times, numbers = state.episodes[i], state.times, state.numbers
    count: Any = np.int64(e.idle)
    # idle instances of all candidates share one stack at the back of the row; look from its top for this candidate's newest
    last = state.times.shape[1] - 1
    for place in range(count - 1, -1, -1):
        if numbers[i, last - place] == slot:
            warm = now - times[i, last - place] <= keep_alive_s
            kept = place
            for other in range(place + 1, count):
                numbers[i, last - kept], times[i, last - kept] = numbers[i, last - other], times[i, last - other]
                kept += 1
            # the newest is cold, and all others of this tool are older: drop them, and close the gaps
            if not warm:
                count, kept = kept, 0
                for other in range(count):
                    if numbers[i, last - other] != slot:
                        numbers[i, last - kept], times[i, last - kept] = numbers[i, last - other], times[i, last - other]
                        kept += 1
            e.idle = kept
            return warm
    return False


@internal
def _complete(tables: Any, rules: Any, state: Any, i: int) -> None:
    """End the next call."""
    e = state.episodes[i]
    index = e.next
    call, slot = state.calls[i, index], np.int64(state.numbers[i, index])
    row, status, need, submit_epoch = e.task, call.status, call.need, call.submit_epoch
    spec = tables.slots[row, slot]
    if status >= _FIRST_FAILURE and not rules.bill_failures:
        price = 0.0
    elif rules.track_bills:
        price = state.bills[i, index].price
    else:
        price = tables.factor[row, call.start_epoch, slot] * spec.fee
    if rules.writes:
        status = take_effect(tables, state, i, slot, call.aim, call.effect, status)
    _free(tables, rules, state, i, index, True)
    # a wish that has changed since the call was made is not met by its answer
    if need >= 0 and tables.version[row, submit_epoch, need] == tables.version[row, e.epoch, need]:
        e.known |= _ONE << np.uint64(need)
    e.price += price
    e.calls += 1
    _tell(state, i, slot * _CODE + status)
    _go_on(tables, rules, state, i)


@inlined
def _go_on(tables: Any, rules: Any, state: Any, i: int) -> None:
    """End the episode where a charge has passed a limit; else start what can start now."""
    e = state.episodes[i]
    exceeded = 0 if rules.record else _exceeded(rules, e, 0.0)
    if exceeded:
        _end(tables, rules, state, i, exceeded)
    elif e.waiting:
        _start_waiting(tables, rules, state, i)


@inlined
def _free(tables: Any, rules: Any, state: Any, i: int, index: int, loaded: bool) -> None:
    """Give back what a call held: its slot, its memory, its part of the budget, and its instance, where that has loaded."""
    e, call = state.episodes[i], state.calls[i, index]
    row, slot, waits = e.task, np.int64(state.numbers[i, index]), call.order == WAITING
    spec, quote = tables.slots[row, slot], tables.quote[row, call.submit_epoch, slot]
    # without events a flat price is its quote, and where prices change between queries the bill alone still knows it
    if rules.track_bills and not waits and not spec.rate_per_s and tables.event_count[row] == 0:
        quote = state.bills[i, index].price
    # the record goes before the books are changed: what follows counts the calls that are left
    _remove(state, i, index, rules.track_bills)
    if waits:
        e.waiting -= 1
    else:
        state.slots[i, slot].busy -= 1
        if spec.gpu_mb and rules.gpu_capacity_mb >= 0.0:
            # sums of fractions leave a remainder, which could keep a call waiting for ever: with nothing running it is zero
            running = False
            for other in range(state.slots.shape[1]):
                if state.slots[i, other].busy and tables.slots[row, other].gpu_mb:
                    running = True
            state.gpu_used[i] = state.gpu_used[i] - spec.gpu_mb if running else 0.0
        if loaded and spec.cold_start_s:
            place = state.times.shape[1] - 1 - e.idle
            state.times[i, place], state.numbers[i, place] = e.now, slot
            e.idle += 1
    e.reserved = e.reserved - quote if e.records else 0.0


@inlined
def oldest(state: Any, i: int, slot: int) -> int:
    """The place of a candidate's oldest call in flight; -1 for none."""
    for index in range(state.episodes[i].records):
        if state.numbers[i, index] == slot:
            return index
    return -1


@inlined
def cancel(tables: Any, rules: Any, state: Any, i: int, index: int) -> None:
    """Cut off a call in flight, by its place among them. That takes no time, and bills what the call has used."""
    _free(tables, rules, state, i, index, _cut(tables, rules, state, i, index))
    _go_on(tables, rules, state, i)


@inlined
def _cut(tables: Any, rules: Any, state: Any, i: int, index: int) -> bool:
    """Charge what a call has used that is cut off now; return whether it had loaded."""
    e, call = state.episodes[i], state.calls[i, index]
    if call.order == WAITING:
        return False
    slot = np.int64(state.numbers[i, index])
    spec = tables.slots[e.task, slot]
    ran, billed = True, 0.0
    if rules.track_bills:
        bill = state.bills[i, index]
        ran = e.now >= bill.ready
        if rules.bill_cold_start:
            billed = e.now - bill.started
        elif ran:
            billed = e.now - bill.ready
    if rules.track_bills and not spec.rate_per_s:
        e.price += state.bills[i, index].price if ran else 0.0
    else:
        e.price += tables.factor[e.task, call.start_epoch, slot] * ((spec.fee if ran else 0.0) + spec.rate_per_s * billed)
    e.calls += ran
    return ran


@inlined
def _remove(state: Any, i: int, index: int, track_bills: bool) -> None:
    """Drop a call's record, keep the others in the order of submission, and find the next to end."""
    e = state.episodes[i]
    e.records -= 1
    last = np.int64(e.records)
    # shifted and not swapped: waiting, memory and the end of an episode follow the order of submission
    for other in range(index, last):
        state.calls[i, other] = state.calls[i, other + 1]
        state.times[i, other], state.numbers[i, other] = state.times[i, other + 1], state.numbers[i, other + 1]
        if track_bills:
            state.bills[i, other] = state.bills[i, other + 1]
    best, at, order = -1, np.inf, 0
    for other in range(last):
        place, ends_at = state.calls[i, other].order, state.times[i, other]
        if place != WAITING and (ends_at < at or (ends_at == at and place < order)):
            best, at, order = other, ends_at, place
    e.next = best


# Completions and events wait in a ring, since many may happen before the agent asks for the first.
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
    if e.news == 0 and e.records == 0:
        return NOTHING
    while e.news == 0:
        if min(_next_at(state, i), _event_at(tables, e)) > rules.deadline_s:
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
    """Let the next scheduled event happen. Prices, bans and wishes follow from the epoch; a changed wish is unknown again."""
    e = state.episodes[i]
    row, event = e.task, np.int64(e.epoch)
    e.epoch += 1  # prices and bans are looked up by epoch, so nothing else needs to change
    for need in range(tables.need_count[row]):
        if tables.version[row, event, need] != tables.version[row, event + 1, need]:
            e.known &= ~(_ONE << np.uint64(need))
    if tables.event_kind[row, event] != INVISIBLE:
        _tell(state, i, -1 - event)


@inlined
def finish(tables: Any, rules: Any, state: Any, i: int) -> None:
    """End with an answer that holds every fact found so far."""
    e = state.episodes[i]
    row = e.task
    answered, clean = met(tables, state, i) if rules.writes else (e.known & tables.required[row], True)
    _, luck, _, _ = uniforms(e.seed, tables.number[row], np.int64(tables.slot_count[row]))
    e.strict = answered > 0 and answered == tables.required[row] and clean
    e.judged = luck < tables.pass_chance[row, bits(answered)] and clean
    _end(tables, rules, state, i, 0)


@inlined
def _exceeded(rules: Any, e: Any, seconds: float) -> int:
    if e.price > rules.price_limit:
        return PRICE
    if seconds > rules.seconds_limit:
        return SECONDS
    if e.tokens > rules.tokens_limit:
        return TOKENS
    if e.calls > rules.calls_limit:
        return CALLS
    return 0


@internal
def _end(tables: Any, rules: Any, state: Any, i: int, exceeded: int) -> None:
    e = state.episodes[i]
    e.over = True
    # in the order of submission, as `calls.cut_off` adds: what still waits or loads has not been executed
    for index in range(e.records):
        _cut(tables, rules, state, i, index)
    e.records = e.waiting = 0
    e.reserved, e.next = 0.0, -1
    e.exceeded = exceeded if exceeded else _exceeded(rules, e, e.now)
