"""A call from its submission to its end: when it starts, what becomes of it, what it costs, and what it leaves behind."""

from typing import Any

from costgym.simulators.rules import layout
from costgym.simulators.rules.failures import UNSEEN, start_next, wake, way_to_fail
from costgym.simulators.rules.gateway import must_wait, passed_limit
from costgym.simulators.rules.writes import aim, decide, take_effect
from costgym.simulators.status import Status

QUANTILES = 4096  # steps of a distribution of durations
CONNECTION_REFUSED_S = 0.05  # how soon a refused connection is known
OK, WRONG_ARGUMENTS, NO_DATA, CANCELLED = Status.OK, Status.WRONG_ARGUMENTS, Status.NO_DATA, Status.CANCELLED
CONNECTION_ERROR, TIMEOUT, OUTAGE = Status.CONNECTION_ERROR, Status.TIMEOUT, Status.OUTAGE
FIRST_FAILURE = 32  # statuses from here on are failures of an executed call


def admit(tables: Any, rules: Any, state: Any, i: Any, slot: Any) -> None:
    """Take in a call that the gateway has let through, and start it if it can start now."""
    e, tool, quote = layout.episode(state, i), layout.tool(state, i, slot), layout.quote(tables, state, i, slot)
    tool.count += 1
    # held back until the call ends, so that calls that run side by side cannot pass the limit together
    e.reserved += quote
    index = layout.new_call(state, i, slot, quote)
    call = layout.call(state, i, index)
    # from here on the call has its number among the tool's calls, and with it its luck
    call.k = tool.count
    spec = layout.spec(tables, e, slot)
    call.aim = aim(tables, rules, state, i, slot, spec)
    layout.note_version(e, call)
    if must_wait(tables, rules, state, i, index, spec, layout.in_flight(e) - 1):
        e.waiting += 1
    else:
        start(tables, rules, state, i, index)


def start_waiting(tables: Any, rules: Any, state: Any, i: Any) -> None:
    """Start the calls that can run now, in the order of submission."""
    e, ahead = layout.episode(state, i), 0  # calls that go on waiting
    for index in layout.all_in_flight(state, i):
        if not layout.waits(state, i, index):
            continue
        spec = layout.spec(tables, e, layout.slot(state, i, index))
        if must_wait(tables, rules, state, i, index, spec, layout.in_flight(e) - e.waiting + ahead):
            ahead += 1
        else:
            e.waiting -= 1
            start(tables, rules, state, i, index)


# A call's whole fate is decided when it starts, from its own four uniforms, so nothing that happens meanwhile can change it;
# only the end of the episode or its agent cuts it off.
def start(tables: Any, rules: Any, state: Any, i: Any, index: Any) -> None:
    """Start a call: load an instance where none is warm, and determine how the call ends, when, and for how much."""
    e, call, slot = layout.episode(state, i), layout.call(state, i, index), layout.slot(state, i, index)
    spec, tool, now = layout.spec(tables, e, slot), layout.tool(state, i, slot), layout.now(e)
    tool.busy += 1
    if rules.gpu_capacity_mb >= 0.0:
        state.gpu_used[i] += spec.gpu_mb
    # loading is kept apart and added to the clock together with the duration, in the order in which SimPy adds
    delay = 0.0
    if spec.cold_start_s and not take_instance(state, i, slot, now, spec.keep_alive_s):
        delay = spec.cold_start_s
    # the k-th call of a tool has the same luck whatever was called before it
    u_outcome, u_kind, u_duration, u_content = layout.luck(tables, state, i, call.k, slot)
    if tool.chain == UNSEEN:
        u_state, u_usual, _, _ = layout.luck(tables, state, i, 0, slot)
        wake(tables, e, spec, tool, u_state, u_usual)
    while tool.started < call.k - 1:  # a call that was cancelled while it waited has used its luck up
        skipped, _, _, _ = layout.luck(tables, state, i, tool.started + 1, slot)
        start_next(spec, tool, skipped)
    start_next(spec, tool, u_outcome)

    call.need, status = -1, OK
    if rules.burst_every_s > 0.0 and layout.in_outage(tables, rules, state, i, spec, now + delay):
        status = OUTAGE
    elif not tool.works:
        status = way_to_fail(tables, rules, e, tool, u_kind)
    elif not is_answered(tables, e, call, spec):
        status = WRONG_ARGUMENTS if u_content < 0.5 else NO_DATA
    duration = spec.latency_s * layout.quantile(tables, spec, int(u_duration * QUANTILES))
    duration, status = runs_for(spec, duration, status)
    if status == TIMEOUT:
        call.need = -1
    call.status = status
    if rules.writes:
        decide(tables, state, i, call, slot, status, u_content)
    layout.note_start(rules, state, i, index, now, delay)
    if rules.track_bills:
        # the price is fixed now; a later price change does not touch this call
        billed = duration + delay if rules.bill_cold_start else duration
        layout.fix_price(state, i, index, price_of(spec, layout.factor(tables, state, i, index), duration, billed))
    layout.schedule(state, i, index, delay + duration)


def is_answered(tables: Any, e: Any, call: Any, spec: Any) -> Any:
    """Return whether a working tool has an answer to a call, and note the need whose fact it brings.

    A call without arguments has the right ones, as soon as what they are taken from is known.
    """
    if layout.has_arguments(call):
        return layout.find_answer(e, call, spec)
    wanted = call.aim
    if wanted >= 0:
        if not layout.ready(tables, e, wanted):
            return False
        call.need = wanted
    return True


def runs_for(spec: Any, duration: Any, status: Any) -> Any:
    """How long a call runs, and its status then: a refused connection is quick, and a time-out ends what takes longer."""
    if status == CONNECTION_ERROR:
        return CONNECTION_REFUSED_S, status
    if status == TIMEOUT or duration > spec.timeout_s:
        return spec.timeout_s, TIMEOUT
    return duration, status


def price_of(spec: Any, factor: Any, duration: Any, billed: Any) -> Any:
    """The price of a call that runs for a duration, of which, with its loading, so many seconds are billed."""
    if not spec.rate_per_s:
        return factor * spec.fee
    # a call that lasts exactly its median costs its quote, to the bit
    if billed == duration and duration == spec.latency_s:
        return factor * layout.median_price(spec)
    return factor * (spec.fee + spec.rate_per_s * billed)


def is_warm(since: Any, now: Any, keep_alive_s: Any) -> Any:
    """Return whether an instance that is idle since some time is still loaded."""
    return now - since <= keep_alive_s


def take_instance(state: Any, i: Any, slot: Any, now: Any, keep_alive_s: Any) -> Any:
    """Take the most recently used idle instance, if it is still warm. If it is not, no instance is."""
    newest = layout.newest_idle(state, i, slot)
    if newest < 0:
        return False
    warm = is_warm(layout.idle_since(state, i, slot, newest), now, keep_alive_s)
    if warm:
        layout.take_idle(state, i, slot, newest)
    else:
        layout.drop_idle(state, i, slot)
    return warm


def complete(tables: Any, rules: Any, state: Any, i: Any, index: Any) -> None:
    """End a call: it takes its effect, gives back what it held, brings its fact, and is charged."""
    e, call, slot = layout.episode(state, i), layout.call(state, i, index), layout.slot(state, i, index)
    status, need, version = call.status, call.need, layout.version(call)
    price = 0.0
    if status < FIRST_FAILURE or rules.bill_failures:
        price = layout.fixed_price(tables, rules, state, i, index)
    if rules.writes:
        status = take_effect(tables, state, i, index, slot, call.aim, call.effect, status)
    free(tables, rules, state, i, index, True)
    # a wish that has changed since the call was made is not met by its answer
    if need >= 0 and layout.same_wish(tables, e, need, version):
        layout.learn(e, need)
    layout.report(state, i, index, slot, status, price)
    layout.charge(e, index, price, 1)
    go_on(tables, rules, state, i)


def go_on(tables: Any, rules: Any, state: Any, i: Any) -> None:
    """End the episode where a charge has passed a limit; else start what can start now."""
    e = layout.episode(state, i)
    passed = 0
    if not rules.record:
        passed = passed_limit(rules, layout.spent(e), 0.0, layout.tokens(e), layout.executed(e))
    if passed:
        end(tables, rules, state, i, passed)
    elif e.waiting:
        start_waiting(tables, rules, state, i)


def free(tables: Any, rules: Any, state: Any, i: Any, index: Any, loaded: Any) -> None:
    """Give back what a call held: its slot, its memory, its part of the budget, and its instance, where that has loaded."""
    e, slot, waits = layout.episode(state, i), layout.slot(state, i, index), layout.waits(state, i, index)
    spec, quote = layout.spec(tables, e, slot), layout.quoted(tables, rules, state, i, index)
    # the call goes before the books are changed: what follows counts the calls that are left
    layout.remove(rules, state, i, index)
    if waits:
        e.waiting -= 1
    else:
        layout.tool(state, i, slot).busy -= 1
        if spec.gpu_mb and rules.gpu_capacity_mb >= 0.0:
            # sums of fractions leave a remainder, which could keep a call waiting for ever: with nothing running it is zero
            running = False
            for other in layout.tools(state):
                if layout.tool(state, i, other).busy and layout.spec(tables, e, other).gpu_mb:
                    running = True
            state.gpu_used[i] = state.gpu_used[i] - spec.gpu_mb if running else 0.0
        if loaded and spec.cold_start_s:
            layout.rest_instance(state, i, slot, layout.now(e))
    e.reserved = e.reserved - quote if layout.in_flight(e) else 0.0


def cut(tables: Any, rules: Any, state: Any, i: Any, index: Any) -> Any:
    """Charge what a call has used that is cut off now; return whether it had loaded."""
    e, slot, price, ran = layout.episode(state, i), layout.slot(state, i, index), 0.0, False
    if not layout.waits(state, i, index):
        spec, now = layout.spec(tables, e, slot), layout.now(e)
        started, ready = layout.started_and_ready(rules, state, i, index)
        # at the very moment at which it is loaded a call runs, as one without a cold start does when it starts
        ran = now >= ready
        if not spec.rate_per_s:
            price = layout.fixed_price(tables, rules, state, i, index) if ran else 0.0
        else:
            billed = now - started if rules.bill_cold_start else now - ready if ran else 0.0
            price = layout.factor(tables, state, i, index) * ((spec.fee if ran else 0.0) + spec.rate_per_s * billed)
    layout.close(state, i, index, price)
    if ran or price:
        layout.charge(e, index, price, int(ran))
    return ran


def end(tables: Any, rules: Any, state: Any, i: Any, passed: Any) -> None:
    """End the episode: what still runs is cut off, and `passed` is the limit that ended it, 0 for none."""
    e = layout.episode(state, i)
    e.over = True
    # in the order of submission: what still waits or loads has not been executed
    for index in layout.all_in_flight(state, i):
        cut(tables, rules, state, i, index)
    e.reserved = 0.0
    e.waiting = 0
    if passed == 0:
        passed = passed_limit(rules, layout.spent(e), layout.now(e), layout.tokens(e), layout.executed(e))
    layout.close_all(state, i, passed)
