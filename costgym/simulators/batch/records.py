"""How rules reach the state of N episodes as arrays of records: what `rules.layout` is for one episode, function by function.

Nothing here is called as it stands: `compile` puts these functions in the place of `rules.layout`, and compiles both.
"""

# mypy: disable-error-code="no-any-return"

from typing import Any

import numpy as np

from costgym.simulators.batch import rng
from costgym.simulators.batch.memory import copy_in, record_at, record_in
from costgym.simulators.rules.calls import complete
from costgym.simulators.rules.events import happen
from costgym.simulators.rules.failures import outage_after
from costgym.simulators.rules.session_draws import NEVER, life_s, price, regime
from costgym.simulators.status import AMBIGUOUS

NOTHING = -(1 << 30)  # what `wait` returns where nothing comes, and a search where nothing is found
WAITING = -1  # the order of a call that waits among those whose end is known
INVISIBLE = -1  # kind of an event that changes nothing: a change of a wish that has no alternative
CODE = 64  # news of a completion are slot * 64 + status, of an event -1 - its index
_AMBIGUOUS = np.int64(sum(1 << int(status) for status in AMBIGUOUS))
_ONE = np.uint64(1)
log, uniforms = rng.log, rng.uniforms


def integer(value: Any) -> Any:
    return np.int64(value)


# -- an episode and what it has spent ------------------------------------------------------------------------------------------


def episode(state: Any, i: Any) -> Any:
    return record_at(state.episodes, i)


def now(e: Any) -> Any:
    return e.now


def spent(e: Any) -> Any:
    return e.price


def tokens(e: Any) -> Any:
    return e.tokens


def executed(e: Any) -> Any:
    return e.calls


def charge(e: Any, index: Any, price: Any, calls: Any) -> None:
    e.price += price
    e.calls += calls


# -- candidates ----------------------------------------------------------------------------------------------------------------


def spec(tables: Any, e: Any, slot: Any) -> Any:
    return tables.slots[e.task, slot]


def tool(state: Any, i: Any, slot: Any) -> Any:
    return state.slots[i, slot]


def tools(state: Any) -> Any:
    return range(state.slots.shape[1])


def banned(tables: Any, e: Any, slot: Any) -> Any:
    return tables.banned[e.task, e.epoch, slot]


def quote(tables: Any, state: Any, i: Any, slot: Any) -> Any:
    e = record_at(state.episodes, i)
    return tables.quote[e.task, e.epoch, slot]


def median_price(of: Any) -> Any:
    return of.fee + of.rate_per_s * of.latency_s


def quantile(tables: Any, of: Any, step: Any) -> Any:
    return tables.factors[of.spread, step]


def window(state: Any, i: Any, of: Any) -> Any:
    return state.windows[i], of.window_at


def luck(tables: Any, state: Any, i: Any, k: Any, slot: Any) -> Any:
    # Philox counts: a row of uniforms costs one block wherever it lies, so nothing is drawn in advance
    e = record_at(state.episodes, i)
    return uniforms(e.seed, tables.number[e.task], np.int64(k) * np.int64(tables.slot_count[e.task] + 1) + slot)


def kind_edge(tables: Any, e: Any, kind: Any) -> Any:
    return tables.kind_edge[e.task, kind]


def kind_status(tables: Any, e: Any, kind: Any) -> Any:
    return tables.kind_status[e.task, kind]


def in_outage(tables: Any, rules: Any, state: Any, i: Any, of: Any, at_s: Any) -> Any:
    if of.outage < 0:
        return False
    # of all outages only the first one that ends later is kept
    e, burst = record_at(state.episodes, i), state.bursts[i, of.outage]
    if burst.count > 0 and at_s < burst.before:  # the time lies before the outage that is kept, so begin again
        burst.count = 0
    if burst.count == 0:
        burst.before, burst.begin, burst.end = -np.inf, 0.0, 0.0
    while burst.count == 0 or burst.end <= at_s:
        slots = np.int64(tables.slot_count[e.task])
        _, _, u_gap, u_length = uniforms(e.seed, tables.number[e.task], burst.count * (slots + 1) + of.outage_slot)
        first = burst.count == 0
        if not first:
            burst.before = burst.end
        burst.begin, burst.end = outage_after(
            rules.burst_every_s, rules.burst_lasts_s, rules.burst_at_first, first, burst.end, u_gap, u_length
        )
        burst.count += 1
    return burst.begin <= at_s


# -- idle instances: of all candidates on one stack at the back of a row -------------------------------------------------------


def newest_idle(state: Any, i: Any, slot: Any) -> Any:
    last = state.times.shape[1] - 1
    for instance in range(np.int64(record_at(state.episodes, i).idle) - 1, -1, -1):
        if state.numbers[i, last - instance] == slot:
            return instance
    return -1


def idle_since(state: Any, i: Any, slot: Any, instance: Any) -> Any:
    return state.times[i, state.times.shape[1] - 1 - instance]


def take_idle(state: Any, i: Any, slot: Any, instance: Any) -> None:
    e, times, numbers = record_at(state.episodes, i), state.times, state.numbers
    last, count = times.shape[1] - 1, np.int64(e.idle)
    for other in range(instance + 1, count):
        numbers[i, last - other + 1], times[i, last - other + 1] = numbers[i, last - other], times[i, last - other]
    e.idle = count - 1


def drop_idle(state: Any, i: Any, slot: Any) -> None:
    e, times, numbers = record_at(state.episodes, i), state.times, state.numbers
    last, left = times.shape[1] - 1, 0
    for other in range(np.int64(e.idle)):
        if numbers[i, last - other] != slot:
            numbers[i, last - left], times[i, last - left] = numbers[i, last - other], times[i, last - other]
            left += 1
    e.idle = left


def rest_instance(state: Any, i: Any, slot: Any, at_s: Any) -> None:
    e = record_at(state.episodes, i)
    column = state.times.shape[1] - 1 - e.idle
    state.times[i, column], state.numbers[i, column] = at_s, slot
    e.idle += 1


# -- calls in flight: from the front of a row, in the order of submission ------------------------------------------------------


def in_flight(e: Any) -> Any:
    return np.int64(e.records)


def all_in_flight(state: Any, i: Any) -> Any:
    return range(np.int64(record_at(state.episodes, i).records))


def earlier(state: Any, i: Any, index: Any) -> Any:
    return range(index)


def call(state: Any, i: Any, index: Any) -> Any:
    return record_in(state.calls, i, index)


def slot(state: Any, i: Any, index: Any) -> Any:
    return np.int64(state.numbers[i, index])


def slots_held(e: Any) -> Any:
    return 0  # processes play interpreted only


def calls_held(of: Any) -> Any:
    return 0


def waits(state: Any, i: Any, index: Any) -> Any:
    return record_in(state.calls, i, index).order == WAITING


def new_call(state: Any, i: Any, slot: Any, price: Any) -> Any:
    e = record_at(state.episodes, i)
    index = np.int64(e.records)
    state.numbers[i, index] = slot
    record_in(state.calls, i, index).order = WAITING
    e.records += 1
    return index


def note_version(e: Any, of: Any) -> None:
    of.submit_epoch = e.epoch


def version(of: Any) -> Any:
    return of.submit_epoch


def same_wish(tables: Any, e: Any, need: Any, at_version: Any) -> Any:
    return tables.version[e.task, at_version, need] == tables.version[e.task, e.epoch, need]


def quoted(tables: Any, rules: Any, state: Any, i: Any, index: Any) -> Any:
    e, of, slot = record_at(state.episodes, i), record_in(state.calls, i, index), state.numbers[i, index]
    quoted_price = tables.quote[e.task, of.submit_epoch, slot]
    # without events a flat price is its quote, and where prices change between queries the bill alone still knows it
    fixed = rules.track_bills and of.order != WAITING and not tables.slots[e.task, slot].rate_per_s
    if fixed and tables.event_count[e.task] == 0:
        quoted_price = record_in(state.bills, i, index).price
    return quoted_price


def note_start(rules: Any, state: Any, i: Any, index: Any, at_s: Any, loads_s: Any) -> None:
    record_in(state.calls, i, index).start_epoch = record_at(state.episodes, i).epoch
    if rules.track_bills:
        record_in(state.bills, i, index).started, record_in(state.bills, i, index).ready = at_s, at_s + loads_s


def started_and_ready(rules: Any, state: Any, i: Any, index: Any) -> Any:
    if rules.track_bills:
        return record_in(state.bills, i, index).started, record_in(state.bills, i, index).ready
    return record_at(state.episodes, i).now, record_at(state.episodes, i).now  # nothing loads, and nothing is billed by time


def factor(tables: Any, state: Any, i: Any, index: Any) -> Any:
    return tables.factor[
        record_at(state.episodes, i).task, record_in(state.calls, i, index).start_epoch, state.numbers[i, index]
    ]


def fix_price(state: Any, i: Any, index: Any, price: Any) -> None:
    record_in(state.bills, i, index).price = price


def fixed_price(tables: Any, rules: Any, state: Any, i: Any, index: Any) -> Any:
    if rules.track_bills:
        return record_in(state.bills, i, index).price
    return factor(tables, state, i, index) * tables.slots[record_at(state.episodes, i).task, state.numbers[i, index]].fee


def remove(rules: Any, state: Any, i: Any, index: Any) -> None:
    e = record_at(state.episodes, i)
    e.records -= 1
    last = np.int64(e.records)
    # shifted and not swapped: waiting, memory and the end of an episode follow the order of submission
    for other in range(index, last):
        copy_in(state.calls, i, other, other + 1)
        state.times[i, other], state.numbers[i, other] = state.times[i, other + 1], state.numbers[i, other + 1]
        if rules.track_bills:
            copy_in(state.bills, i, other, other + 1)
    best, at_s, order = -1, np.inf, 0
    for other in range(last):
        rank, ends_s = record_in(state.calls, i, other).order, state.times[i, other]
        if rank != WAITING and (ends_s < at_s or (ends_s == at_s and rank < order)):
            best, at_s, order = other, ends_s, rank
    e.next = best


def report(state: Any, i: Any, index: Any, of_slot: Any, status: Any, price: Any) -> None:
    _add_news(state, i, of_slot * CODE + status)


def close(state: Any, i: Any, index: Any, price: Any) -> None:
    pass  # the record goes with the call


def close_all(state: Any, i: Any, passed: Any) -> None:
    e = record_at(state.episodes, i)
    e.records = 0
    e.next = -1
    e.exceeded = passed


# -- facts: bits of a word -----------------------------------------------------------------------------------------------------


def needs(tables: Any, e: Any) -> Any:
    return range(tables.need_count[e.task])


def serves(tables: Any, e: Any, slot: Any, need: Any) -> Any:
    return (tables.serves[e.task, slot] >> np.uint64(need)) & _ONE != 0


def serves_several(tables: Any, state: Any, i: Any, slot: Any) -> Any:
    bits = tables.serves[record_at(state.episodes, i).task, slot]
    return bits != 0 and bits & (bits - _ONE) != 0


def knows(e: Any, need: Any) -> Any:
    return (e.known >> np.uint64(need)) & _ONE != 0


def learn(e: Any, need: Any) -> None:
    e.known |= _ONE << np.uint64(need)


def forget(e: Any, need: Any) -> None:
    e.known &= ~(_ONE << np.uint64(need))


def ready(tables: Any, e: Any, need: Any) -> Any:
    after = tables.after[e.task, e.epoch, need]
    return (e.known & after) == after


def required(tables: Any, e: Any, need: Any) -> Any:
    return (tables.required[e.task] >> np.uint64(need)) & _ONE != 0


def has_arguments(of: Any) -> Any:
    return False


def find_answer(e: Any, of: Any, candidate: Any) -> Any:
    return False  # only calls with arguments ask


def judge_luck(tables: Any, e: Any) -> Any:
    _, luck, _, _ = uniforms(e.seed, tables.number[e.task], np.int64(tables.slot_count[e.task]))
    return luck


def judge_chance(tables: Any, e: Any, met: Any) -> Any:
    return tables.pass_chance[e.task, met]


# -- effects: calls have no arguments here, so an effect is always about a need that wants it ----------------------------------


def role(tables: Any, e: Any, slot: Any) -> Any:
    return tables.effects[e.task, slot].role


def effect(tables: Any, e: Any, slot: Any) -> Any:
    return tables.effects[e.task, slot]


def ambiguous(status: Any) -> Any:
    return ((_AMBIGUOUS >> status) & 1) == 1


def entity(tables: Any, e: Any, of: Any, slot: Any) -> Any:
    wanted = np.int64(of.aim)
    return wanted if wanted >= 0 and ready(tables, e, wanted) else -1


def is_need(of: Any) -> Any:
    return of >= 0


def entities(tables: Any, state: Any, i: Any) -> Any:
    return range(tables.need_count[record_at(state.episodes, i).task])


def has_record(tables: Any, e: Any, of: Any) -> Any:
    return wants_effect(tables, e, of)


def wants_effect(tables: Any, e: Any, need: Any) -> Any:
    return (tables.state[e.task] >> np.uint64(need)) & _ONE != 0


def must_be_stated(tables: Any, e: Any, need: Any) -> Any:
    return (tables.stated[e.task] >> np.uint64(need)) & _ONE != 0


def record(state: Any, i: Any, of: Any) -> Any:
    return state.entities[i, of]


def record_of(tables: Any, state: Any, i: Any, slot: Any, of: Any) -> Any:
    return state.entities[i, of]


def amount(tables: Any, state: Any, i: Any, of: Any) -> Any:
    return tables.amount[record_at(state.episodes, i).task, of]


def repeats(state: Any, i: Any, index: Any, slot: Any, of: Any) -> Any:
    bit = _ONE << np.uint64(of)
    met = (state.keys[i, slot] & bit) != 0
    state.keys[i, slot] |= bit
    return met


def note_seen(e: Any, of: Any, seen: Any) -> None:
    if seen:
        learn(e, of)
    else:
        forget(e, of)


def due(tables: Any, state: Any, i: Any) -> Any:
    """Bits of the needs that a check can tell something new of, and of those whose effect was seen twice."""
    e, checks, undoes = record_at(state.episodes, i), np.uint64(0), np.uint64(0)
    for need in needs(tables, e):
        if wants_effect(tables, e, need):
            bit = _ONE << np.uint64(need)
            checks |= bit if state.entities[i, need].perhaps else np.uint64(0)
            undoes |= bit if state.entities[i, need].seen > 1 else np.uint64(0)
    return checks, undoes


# -- events and the clock ------------------------------------------------------------------------------------------------------


def change(tables: Any, e: Any, event: Any) -> Any:
    e.epoch += 1  # prices, bans and wishes are looked up by epoch, so nothing else needs to change
    return tables.event_kind[e.task, event] != INVISIBLE


def changes_wish(tables: Any, event: Any, e: Any, need: Any) -> Any:
    return tables.version[e.task, event, need] != tables.version[e.task, event + 1, need]


def report_event(state: Any, i: Any, event: Any) -> None:
    _add_news(state, i, -1 - event)


def _add_news(state: Any, i: Any, code: Any) -> None:
    # a ring, since many things may happen before the agent asks for the first
    e = record_at(state.episodes, i)
    index = e.news_at + e.news
    size = state.news.shape[1]
    state.news[i, index - size if index >= size else index] = code
    e.news += 1


def news(e: Any) -> Any:
    return e.news


def take_news(state: Any, i: Any) -> Any:
    e = record_at(state.episodes, i)
    code = state.news[i, e.news_at]
    e.news_at = e.news_at + 1 if e.news_at + 1 < state.news.shape[1] else 0
    e.news -= 1
    return int(code)


def event_at(tables: Any, e: Any) -> Any:
    """The time of the next scheduled event."""
    return tables.event_at[e.task, e.epoch] if e.epoch < tables.event_count[e.task] else np.inf


def end_at(state: Any, i: Any) -> Any:
    following = record_at(state.episodes, i).next
    return state.times[i, following] if following >= 0 else np.inf


def next_at(tables: Any, state: Any, i: Any) -> Any:
    return min(end_at(state, i), event_at(tables, record_at(state.episodes, i)))


def step(tables: Any, rules: Any, state: Any, i: Any) -> None:
    # scheduled events were there before any call, so they come first at the same time
    e = record_at(state.episodes, i)
    at_s, ends_s = event_at(tables, e), end_at(state, i)
    if at_s <= ends_s:
        e.now = at_s
        happen(tables, state, i, np.int64(e.epoch))
    else:
        e.now = ends_s
        complete(tables, rules, state, i, np.int64(e.next))


def reach(tables: Any, rules: Any, state: Any, i: Any, at_s: Any) -> None:
    e = record_at(state.episodes, i)
    while not e.over and next_at(tables, state, i) <= at_s:
        step(tables, rules, state, i)
    if e.now < at_s and not e.over:
        e.now = e.now + (at_s - e.now)  # in the order in which SimPy adds


def sleep(tables: Any, rules: Any, state: Any, i: Any, seconds: Any) -> None:
    # the pause takes a place among simultaneous events, as a timeout of SimPy does: what was scheduled before it comes first
    e = record_at(state.episodes, i)
    until, order = e.now + seconds, e.order
    e.order += 1
    while not e.over:
        at_s, ends_s = event_at(tables, e), end_at(state, i)
        if at_s <= ends_s:
            if at_s > until:
                break
        elif ends_s > until or (ends_s == until and record_in(state.calls, i, e.next).order > order):
            break
        step(tables, rules, state, i)
    if not e.over:
        e.now = until


def schedule(state: Any, i: Any, index: Any, seconds: Any) -> None:
    e = record_at(state.episodes, i)
    ends_s = e.now + seconds
    record_in(state.calls, i, index).order = e.order
    e.order += 1
    # the next to end is kept, so that a step need not look through all calls in flight
    if ends_s < end_at(state, i):
        e.next = index
    state.times[i, index] = ends_s


# -- sessions ------------------------------------------------------------------------------------------------------------------


def sessions(state: Any) -> Any:
    return state.sessions


def query(sessions: Any, i: Any) -> Any:
    return record_at(sessions.progress, i).query


def queries(sessions: Any) -> Any:
    return sessions.fact.shape[1]


def open_query(e: Any, query: Any) -> None:
    e.known = 0


def close_query(sessions: Any, i: Any, passed: Any) -> None:
    of = record_at(sessions.progress, i)
    if passed:
        of.value += sessions.value[i, of.query]
    of.query += 1
    of.called = 0


def rests(sessions: Any, i: Any, query: Any) -> Any:
    of = record_at(sessions.progress, i)
    if sessions.drawn or query >= of.moves_at:
        of.moves_at = NEVER  # `drift` finds the next query at which something moves
        return False
    return True


def drift(sessions: Any, i: Any, query: Any, slot: Any) -> None:
    if sessions.drawn:
        return
    of, progress = sessions.drifts[i, slot], record_at(sessions.progress, i)
    at, factor = np.int64(sessions.regimes[i, 0, slot]) & 3, np.int64(sessions.regimes[i, 0, slot]) >> 2
    if of.regime_at == query:
        of.regimes += 1
        at, lasts = regime(sessions.plan[0], progress.number, slot, np.int64(of.regimes), of.alive, of.half)
        of.regime_at += lasts
    if of.price_at == query:
        of.prices += 1
        factor, lasts = price(sessions.plan[0], progress.number, slot, np.int64(of.prices))
        of.price_at += lasts
    sessions.regimes[i, 0, slot] = at + 4 * factor
    progress.moves_at = min(progress.moves_at, of.regime_at, of.price_at)


def session_uniforms(plan: Any, number: Any, index: Any) -> Any:
    return uniforms(plan.key, number, np.int64(index))


def _present(sessions: Any, i: Any, query: Any, slot: Any) -> Any:
    """The state of a tool in a query and four times the index of its price's factor: where a session is drawn as it is played,
    of the present query alone."""
    return np.int64(sessions.regimes[i, query if sessions.drawn else 0, slot])


def state_in(sessions: Any, i: Any, query: Any, slot: Any) -> Any:
    return _present(sessions, i, query, slot) & 3


def set_session_price(tables: Any, sessions: Any, i: Any, query: Any, slot: Any) -> None:
    price_factor, fee = sessions.factors[_present(sessions, i, query, slot) >> 2], sessions.fees[i, slot]
    tables.factor[i, 0, slot], tables.quote[i, 0, slot] = price_factor, fee * price_factor


def capability(sessions: Any, i: Any, query: Any) -> Any:
    return sessions.capability[i, query]


def fact_of(sessions: Any, i: Any, query: Any) -> Any:
    return sessions.fact[i, query]


def memory(sessions: Any, i: Any, fact: Any) -> Any:
    return sessions.found_s[i, fact], sessions.found_for[i, fact]


def remember(sessions: Any, i: Any, fact: Any, at_s: Any, query: Any) -> None:
    record_at(sessions.progress, i).facts += sessions.found_for[i, fact] < 0
    sessions.found_s[i, fact], sessions.found_for[i, fact], sessions.checked_s[i, fact] = at_s, query, at_s


def check_fact(sessions: Any, i: Any, fact: Any, at_s: Any) -> None:
    sessions.checked_s[i, fact] = at_s


def forget_fact(sessions: Any, i: Any, fact: Any) -> None:
    sessions.found_for[i, fact] = -1
    record_at(sessions.progress, i).facts -= 1


def lives_s(sessions: Any, i: Any, found_for: Any) -> Any:
    if sessions.drawn:
        return sessions.lives_s[i, found_for]
    return life_s(sessions.plan[0], record_at(sessions.progress, i).number, np.int64(found_for))


def query_of(of: Any) -> Any:
    return np.int64(of.start_epoch)


def count_seconds(sessions: Any, i: Any, slot: Any, seconds: Any) -> None:
    sessions.lasted_s[i, slot] += seconds


def count_call(sessions: Any, i: Any, query: Any) -> None:
    of = record_at(sessions.progress, i)
    of.called += query == of.query
