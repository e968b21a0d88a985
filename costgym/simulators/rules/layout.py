"""How rules reach the state of one `Episode`: the objects that stand for tables, records and the clock.

`batch.records` has a function of each name for N episodes as arrays, which `batch.compile` puts in this module's place. What a
function means is said here once: an index of a call in flight is the `Call` itself here, and its index in a row there.
"""

# mypy: disable-error-code="no-any-return"

from collections.abc import Iterable
from functools import lru_cache
from math import inf
from typing import Any

from costgym.simulators import draws
from costgym.simulators.clock import now_of
from costgym.simulators.rules.terms import change_terms
from costgym.simulators.status import AMBIGUOUS, Status
from costgym.simulators.tools import READ

NOTHING = None  # what `wait` returns where nothing comes, and a search where nothing is found
log = draws.log
now = now_of  # simulated seconds since the start


def integer(value: Any) -> Any:
    """A whole number that may be counted down below zero."""
    return value


# -- an episode and what it has spent ------------------------------------------------------------------------------------------


def episode(state: Any, i: Any) -> Any:
    """The record of an episode."""
    return state


def spent(e: Any) -> Any:
    """The price of all charges so far."""
    return e.ledger.price


def tokens(e: Any) -> Any:
    """Tokens charged so far."""
    return e.ledger.tokens


def executed(e: Any) -> Any:
    """Executed calls so far."""
    return e.ledger.calls


def charge(e: Any, index: Any, price: Any, calls: Any) -> None:
    """Charge the price of a call."""
    e.ledger.charge(now(e), index.tool, price, 0, calls)


# -- candidates ----------------------------------------------------------------------------------------------------------------


def spec(tables: Any, e: Any, slot: Any) -> Any:
    """What is fixed about a candidate."""
    return tables.candidates[slot]


def tool(state: Any, i: Any, slot: Any) -> Any:
    """The `ToolState` of a candidate."""
    return state.tools[slot] or state.add_tool(slot)


def tools(state: Any) -> Iterable[int]:
    """The slots of all candidates."""
    return range(len(state.tools))


def banned(tables: Any, e: Any, slot: Any) -> Any:
    """Return whether an event has banned a candidate."""
    return slot in tables.banned


def quote(tables: Any, state: Any, i: Any, slot: Any) -> Any:
    """The price that the catalogue states for a call now."""
    return tables.candidates[slot].quote * tables.factors[slot]


def median_price(of: Any) -> Any:
    """The price, without factors, of a call that runs for the candidate's median duration."""
    return of.quote


def quantile(tables: Any, of: Any, step: Any) -> Any:
    """A quantile of a candidate's duration over its median."""
    return of.factors[step]


def window(state: Any, i: Any, of: Any) -> Any:
    """The times of admitted calls of a rate-limited candidate: an array, and where it begins in it."""
    return state.tools[of.index].admitted, 0


def luck(tables: Any, state: Any, i: Any, k: Any, slot: Any) -> Any:
    """The four uniforms of a candidate's k-th call; those of its hidden state for 0."""
    return state.draws_of(slot).at(k, slot)


def kind_edge(tables: Any, e: Any, kind: Any) -> Any:
    """The cumulative weight of a way to fail, infinite for the last."""
    return tables.world.kind_edges[kind]


def kind_status(tables: Any, e: Any, kind: Any) -> Any:
    """The status of a way to fail."""
    return tables.world.kinds[kind][1]


def in_outage(tables: Any, rules: Any, state: Any, i: Any, of: Any, at_s: Any) -> Any:
    """Return whether a call of a candidate that starts at a time falls into an outage."""
    return state.in_outage(of, at_s)


# -- idle instances ------------------------------------------------------------------------------------------------------------


def newest_idle(state: Any, i: Any, slot: Any) -> Any:
    """The index of a candidate's most recently used idle instance; -1 for none."""
    return len(state.tools[slot].idle) - 1


def idle_since(state: Any, i: Any, slot: Any, instance: Any) -> Any:
    """The time from which an instance is idle."""
    return state.tools[slot].idle[instance]


def take_idle(state: Any, i: Any, slot: Any, instance: Any) -> None:
    """Use the newest idle instance of a candidate."""
    state.tools[slot].idle.pop()


def drop_idle(state: Any, i: Any, slot: Any) -> None:
    """Drop all idle instances of a candidate."""
    state.tools[slot].idle.clear()


def rest_instance(state: Any, i: Any, slot: Any, at_s: Any) -> None:
    """Add an idle instance of a candidate."""
    state.tools[slot].idle.append(at_s)


# -- calls in flight -----------------------------------------------------------------------------------------------------------


def in_flight(e: Any) -> Any:
    """The number of calls that run, load or wait for their turn."""
    return len(e.flying)


def all_in_flight(state: Any, i: Any) -> Iterable[Any]:
    """The indices of those, in the order of submission."""
    return list(state.flying)


def earlier(state: Any, i: Any, index: Any) -> Iterable[Any]:
    """The indices of those that were submitted before one of them."""
    for call_before in state.flying:
        if call_before is index:
            return
        yield call_before


def call(state: Any, i: Any, index: Any) -> Any:
    """The record of a call in flight."""
    return index


def slot(state: Any, i: Any, index: Any) -> Any:
    """The candidate of a call in flight."""
    return index.slot


def slots_held(e: Any) -> Any:
    """Slots of the machine that a process of the world has taken."""
    return e.held


def calls_held(of: Any) -> Any:
    """Slots of a tool that a process of the world has taken."""
    return of.held


def waits(state: Any, i: Any, index: Any) -> Any:
    """Return whether a call waits for its turn."""
    return index.started_s < 0.0


def new_call(state: Any, i: Any, slot: Any, price: Any) -> Any:
    """The index of the call that is admitted now, of a candidate that is quoted at a price."""
    admitted = state.calls[-1]
    admitted.quote = price
    state.flying.append(admitted)
    return admitted


def note_version(e: Any, of: Any) -> None:
    """Note what the user wants when a call is admitted."""
    if of.aim >= 0:
        of.version = e.versions[of.aim]


def version(of: Any) -> Any:
    """What the user wanted when a call was admitted."""
    return of.version


def same_wish(tables: Any, e: Any, need: Any, at_version: Any) -> Any:
    """Return whether the user still wants what they wanted then."""
    return at_version == e.versions[need]


def quoted(tables: Any, rules: Any, state: Any, i: Any, index: Any) -> Any:
    """The quote at which a call was admitted."""
    return index.quote


def note_start(rules: Any, state: Any, i: Any, index: Any, at_s: Any, loads_s: Any) -> None:
    """Note that a call starts at the present price factor, and how long it loads."""
    index.started_s, index.ready_s, index.cold = at_s, at_s + loads_s, loads_s > 0.0
    index.factor = state.factors[index.slot]
    if index.status is Status.TIMEOUT:
        index.answer = None  # it was on its way


def started_and_ready(rules: Any, state: Any, i: Any, index: Any) -> Any:
    """When a call started, and from when on it is loaded."""
    return index.started_s, index.ready_s


def factor(tables: Any, state: Any, i: Any, index: Any) -> Any:
    """The factor on prices that held when a call started."""
    return index.factor


def fix_price(state: Any, i: Any, index: Any, price: Any) -> None:
    """Note what a call will cost that runs to its end."""
    index.price = price


def fixed_price(tables: Any, rules: Any, state: Any, i: Any, index: Any) -> Any:
    """What a call costs that runs to its end."""
    return index.price


def remove(rules: Any, state: Any, i: Any, index: Any) -> None:
    """Take a call out of those in flight, and its end from the clock."""
    flying, position = state.flying, 0
    while flying[position] is not index:
        position += 1
    del flying[position]
    if index.timer is not None:
        state.clock.discard(index.timer)
        index.timer = None


def report(state: Any, i: Any, index: Any, of_slot: Any, status: Any, price: Any) -> None:
    """Note how a call has ended, for a later `wait`."""
    index.finished_s, index.status, index.price = now(state), status, price
    state.unread.append(index)


def close(state: Any, i: Any, index: Any, price: Any) -> None:
    """Note that a call was cut off."""
    index.finished_s, index.status, index.need, index.price = now(state), Status.CANCELLED, -1, price


def close_all(state: Any, i: Any, passed: Any) -> None:
    """Forget the calls in flight at the end of an episode, and note the limit that ended it."""
    state.close(passed)


# -- facts ---------------------------------------------------------------------------------------------------------------------


def needs(tables: Any, e: Any) -> Iterable[int]:
    """The indices of a task's needs."""
    return range(len(tables.needs))


def serves(tables: Any, e: Any, slot: Any, need: Any) -> Any:
    """Return whether a candidate serves a need."""
    return need in tables.candidates[slot].needs


def serves_several(tables: Any, state: Any, i: Any, slot: Any) -> Any:
    """Return whether a candidate serves more than one."""
    return len(tables.candidates[slot].needs) > 1


def knows(e: Any, need: Any) -> Any:
    """Return whether the fact of a need is known."""
    return e.known[need]


def learn(e: Any, need: Any) -> None:
    """Note that the fact of a need is known."""
    e.known[need] = True


def forget(e: Any, need: Any) -> None:
    """Note that the fact of a need is not known any more."""
    e.known[need] = False


def ready(tables: Any, e: Any, need: Any) -> Any:
    """Return whether everything that a need builds on is known."""
    after = tables.needs[need].after
    return not after or all(e.known[before] for before in after)


def required(tables: Any, e: Any, need: Any) -> Any:
    """Return whether an answer without a need is incomplete."""
    return not isinstance(need, str) and tables.needs[need].required


def has_arguments(of: Any) -> Any:
    """Return whether a call has arguments of its own."""
    return of.arguments is not None


def find_answer(e: Any, of: Any, candidate: Any) -> Any:
    """Return whether a working tool has an answer to the arguments of a call; notes the need whose fact it brings."""
    return e.find_answer(of, candidate)


def judge_luck(tables: Any, e: Any) -> Any:
    """The judge's luck, which belongs to the episode: agents with the same facts get the same verdict."""
    return e._draws.at(0, e._draws.slots - 1)[draws.KIND]


def judge_chance(tables: Any, e: Any, met: Any) -> Any:
    """The judge's chance to pass an answer that meets so many of the required needs."""
    count = sum(need.required for need in tables.needs)
    return tables.world.judge.chance(met / count if count else 0.0, tables.task.solvable)


# -- effects -------------------------------------------------------------------------------------------------------------------


def role(tables: Any, e: Any, slot: Any) -> Any:
    """One of `READ`, `WRITE`, `CHECK` and `UNDO`."""
    of = tables.candidates[slot].effect
    return READ if of is None else of.role


def effect(tables: Any, e: Any, slot: Any) -> Any:
    """What calls of a candidate do to the store."""
    return tables.candidates[slot].effect


def ambiguous(status: Any) -> Any:
    """Return whether a writing call that ends so may have taken effect or not."""
    return status in AMBIGUOUS


def entity(tables: Any, e: Any, of: Any, slot: Any) -> Any:
    """What a call is about: the need that wants it, another entity in words, or -1 where its arguments are rejected."""
    return e.store.entity_of(e, of, tables.candidates[slot])


def is_need(of: Any) -> Any:
    """Return whether an entity is what a need wants."""
    return not isinstance(of, str) and of >= 0


def entities(tables: Any, state: Any, i: Any) -> Iterable[Any]:
    """All entities that there may be effects on."""
    return list(state.store.records)


def has_record(tables: Any, e: Any, of: Any) -> Any:
    """Return whether there may be effects on an entity."""
    return of in e.store.records


def wants_effect(tables: Any, e: Any, need: Any) -> Any:
    """Return whether a need wants an effect rather than a fact."""
    return tables.needs[need].state


def must_be_stated(tables: Any, e: Any, need: Any) -> Any:
    """Return whether the answer has to state what the effect of a need returned."""
    return tables.needs[need].asked


def record(state: Any, i: Any, of: Any) -> Any:
    """The effects on an entity."""
    return state.store.records[of]


def record_of(tables: Any, state: Any, i: Any, slot: Any, of: Any) -> Any:
    """The same for an entity that may be new to the store."""
    return state.store.record_of(of, tables.candidates[slot])


def amount(tables: Any, state: Any, i: Any, of: Any) -> Any:
    """What an effect on an entity is worth."""
    return state.store.records[of].amount


def repeats(state: Any, i: Any, index: Any, slot: Any, of: Any) -> Any:
    """Return whether a tool has met the idempotency key of a call, which it knows from now on."""
    return state.store.repeats(index, of)


def note_seen(e: Any, of: Any, seen: Any) -> None:
    """Note whether the agent has been told of an effect that a need wants."""
    if is_need(of):
        e.known[of] = seen


# -- events and the clock ------------------------------------------------------------------------------------------------------


def change(tables: Any, e: Any, event: Any) -> Any:
    """Let an event change prices, bans or what the user wants; return whether it is visible."""
    return change_terms(e, event)


def changes_wish(tables: Any, event: Any, e: Any, need: Any) -> Any:
    """Return whether an event changes what a need asks for."""
    return event.kind == "preference_change" and event.need == need


def report_event(state: Any, i: Any, event: Any) -> None:
    """Note an event for a later `wait`."""
    state.unread.append(event)


def news(e: Any) -> Any:
    """The number of completions and visible events that no `wait` has returned yet."""
    return len(e.unread)


def take_news(state: Any, i: Any) -> Any:
    """Take the first of those."""
    return state.unread.popleft()


def next_at(tables: Any, state: Any, i: Any) -> Any:
    """The time at which something happens next; infinite where nothing does."""
    return state.clock.peek()


def end_at(state: Any, i: Any) -> Any:
    """The time at which the next call ends; infinite where none runs."""
    return min((call.ends_s for call in state.flying if call.started_s >= 0.0), default=inf)


def step(tables: Any, rules: Any, state: Any, i: Any) -> None:
    """Let the next thing happen."""
    state.clock.step()


def reach(tables: Any, rules: Any, state: Any, i: Any, at_s: Any) -> None:
    """Let everything happen up to a moment, and go there unless the episode ends before."""
    clock = state.clock
    while clock.peek() <= at_s and not state.over:
        clock.step()
    if clock.now < at_s and not state.over:
        clock.run(until=at_s)


def sleep(tables: Any, rules: Any, state: Any, i: Any, seconds: Any) -> None:
    """Let time pass unless the episode ends before."""
    clock = state.clock
    if clock.is_idle and seconds >= 0.0:
        clock.jump(seconds)
        return
    # a timeout among the other events, so that what happens at the same time keeps the order of its causes
    timeout = clock.timeout(seconds)
    while not timeout.processed and not state.over:
        clock.step()


def schedule(state: Any, i: Any, index: Any, seconds: Any) -> None:
    """Let a call end after so many seconds."""
    index.ends_s = now(state) + seconds
    index.timer = timer = state.clock.timeout(seconds, index)
    timer.callbacks.append(state.end_call)


# -- sessions ------------------------------------------------------------------------------------------------------------------


def sessions(state: Any) -> Any:
    """What holds the sessions of episodes."""
    return state


def query(sessions: Any, i: Any) -> Any:
    """The present query; the number of queries once all are over."""
    return sessions.query


def queries(sessions: Any) -> Any:
    """The number of queries."""
    return sessions.session.rules.queries


def open_query(e: Any, query: Any) -> None:
    """Forget what the last query has found."""
    e.open_query()


def close_query(sessions: Any, i: Any, passed: Any) -> None:
    """Count the present query's value if it has passed, and go to the next one."""
    sessions.close_query(passed)


def state_in(sessions: Any, i: Any, query: Any, slot: Any) -> Any:
    """A tool's hidden state in a query: 0 alive, 1 degraded, 2 dead."""
    return sessions.states[query][slot]


def rests(sessions: Any, i: Any, query: Any) -> Any:
    """Whether nothing has moved since the query before; False where that is not known."""
    return False


def drift(sessions: Any, i: Any, query: Any, slot: Any) -> None:
    """Draw what of a tool moves before a query. Here the whole session is drawn before it begins."""


def session_uniforms(plan: Any, number: Any, index: Any) -> Any:
    """Four uniforms that a session of version 1 is drawn by."""
    first = index % _BLOCK * draws.PURPOSES
    return _block(int(plan.key), number, index // _BLOCK)[first : first + draws.PURPOSES]


_BLOCK = 64  # rows of uniforms that are drawn at once, since a jump of the generator costs as much
_source = draws.DrawSource()


@lru_cache(maxsize=256)
def _block(key: int, number: int, block: int) -> list[float]:
    return _source.flat(key, number, 1, block * _BLOCK, _BLOCK).tolist()


def set_session_price(tables: Any, sessions: Any, i: Any, query: Any, slot: Any) -> None:
    """Let a tool's price of a query hold."""
    tables.factors[slot] = sessions.price_factors[query][slot]


def capability(sessions: Any, i: Any, query: Any) -> Any:
    """The need that a query is about."""
    return sessions.session.capability[query]


def fact_of(sessions: Any, i: Any, query: Any) -> Any:
    """The fact that a query asks for."""
    return int(sessions.session.fact[query])


def memory(sessions: Any, i: Any, fact: Any) -> Any:
    """When a fact in memory was found, and for which query."""
    return sessions.memory[fact]


def remember(sessions: Any, i: Any, fact: Any, at_s: Any, query: Any) -> None:
    """Put a fact into memory that was found for a query."""
    sessions.memory[fact] = at_s, query
    sessions.checked_s[fact] = at_s


def check_fact(sessions: Any, i: Any, fact: Any, at_s: Any) -> None:
    """Note when a fact in memory was known to be right."""
    sessions.checked_s[fact] = at_s


def forget_fact(sessions: Any, i: Any, fact: Any) -> None:
    """Take a fact out of memory."""
    del sessions.memory[fact]


def lives_s(sessions: Any, i: Any, found_for: Any) -> Any:
    """How long the fact lives that was found for a query, simulated seconds."""
    return sessions.session.lives_s[found_for]


def query_of(of: Any) -> Any:
    """The query that a call was made for."""
    return of.version


def count_seconds(sessions: Any, i: Any, slot: Any, seconds: Any) -> None:
    """Count the seconds of a tool's call that ends."""
    sessions.lasted_s[slot] += seconds


def count_call(sessions: Any, i: Any, query: Any) -> None:
    """Count an executed call for the present query."""
    sessions.called += query == sessions.query
