"""What an episode admits: the gateway, budgets, slots and GPU memory."""

from math import inf
from typing import Any

from costgym.simulators.rules import layout
from costgym.simulators.status import Status

BANNED, OVER_BUDGET = Status.BANNED, Status.OVER_BUDGET
RATE_LIMITED, QUOTA_EXCEEDED = Status.RATE_LIMITED, Status.QUOTA_EXCEEDED
PRICE, SECONDS, TOKENS, CALLS = range(1, 5)
"""Numbers of the limit that was passed, in the order of `ledger.RESOURCES`; 0 for none."""


def gateway(tables: Any, rules: Any, state: Any, i: Any, slot: Any) -> Any:
    """The status with which a call is refused now, or -1; a call that is let through counts in its rate window."""
    e = layout.episode(state, i)
    spec, tool = layout.spec(tables, e, slot), layout.tool(state, i, slot)
    refusal = barred(tables, e, spec, tool, slot)
    if refusal >= 0:
        return refusal
    if rules.refuse:
        spent, limit = spent_and_limit(rules, e)
        if spent + layout.quote(tables, state, i, slot) > limit:
            return OVER_BUDGET
    # last, since a call that is let through takes a place in the window, and nothing may refuse it after that
    if spec.rate_limit and not in_window(state, i, spec, tool, layout.now(e)):
        return RATE_LIMITED
    return -1


def barred(tables: Any, e: Any, spec: Any, tool: Any, slot: Any) -> Any:
    """The status with which a ban or a quota that is used up refuses a call now, or -1."""
    if layout.banned(tables, e, slot):
        return BANNED
    if spec.quota and tool.count >= spec.quota:
        return QUOTA_EXCEEDED
    return -1


def admits(tables: Any, state: Any, i: Any, slot: Any) -> Any:
    """Return whether bans, quota and rate limit would let a call through now; it is not counted."""
    e = layout.episode(state, i)
    spec, tool = layout.spec(tables, e, slot), layout.tool(state, i, slot)
    if barred(tables, e, spec, tool, slot) >= 0:
        return False
    if not spec.rate_limit:
        return True
    times, first = layout.window(state, i, spec)
    count = layout.integer(tool.window)
    return count - expired(times, first, count, spec, layout.now(e)) < spec.rate_limit


def expired(times: Any, first: Any, count: Any, spec: Any, now: Any) -> Any:
    """How many of the admitted calls, oldest first, have left the window."""
    edge, left = now - spec.window_s, 0
    while left < count and times[first + left] <= edge:
        left += 1
    return left


def in_window(state: Any, i: Any, spec: Any, tool: Any, now: Any) -> Any:
    """Return whether a tool's rate limit admits a call now, which then counts."""
    # times of admitted calls, oldest first; those that have left the window are dropped from the front
    times, first = layout.window(state, i, spec)
    count = layout.integer(tool.window)
    left = expired(times, first, count, spec, now)
    if left:
        count -= left
        for index in range(first, first + count):
            times[index] = times[index + left]
    admitted = count < spec.rate_limit
    if admitted:
        times[first + count] = now
        count += 1
    tool.window = count
    return admitted


def spent_and_limit(rules: Any, e: Any) -> Any:
    """What is spent, running calls at their quoted prices, and the limit that it may not pass with another call's quote: minus
    infinity where the number of calls leaves no room."""
    limit = rules.price_limit if rules.refuse else inf
    if rules.refuse and layout.executed(e) + layout.in_flight(e) + 1 > rules.calls_limit:
        limit = -inf
    return layout.spent(e) + e.reserved, limit


def passed_limit(rules: Any, price: Any, seconds: Any, tokens: Any, calls: Any) -> Any:
    """The number of the first limit that is passed, or 0."""
    if price > rules.price_limit:
        return PRICE
    if seconds > rules.seconds_limit:
        return SECONDS
    if tokens > rules.tokens_limit:
        return TOKENS
    if calls > rules.calls_limit:
        return CALLS
    return 0


def must_wait(tables: Any, rules: Any, state: Any, i: Any, index: Any, spec: Any, taken: Any) -> Any:
    """Return whether a call has to wait now for a slot or for memory.

    `taken` counts the calls that have a slot of the machine, and those before this call that wait for one.
    """
    # a call that waits for memory holds its slot, so the machine's slots are handed out in the order of submission
    if rules.slots > 0 and taken + layout.slots_held(layout.episode(state, i)) >= rules.slots:
        return True
    if spec.concurrency:
        slot = layout.slot(state, i, index)
        tool = layout.tool(state, i, slot)
        if tool.busy + layout.calls_held(tool) >= spec.concurrency:
            return True
        # calls of one tool start in the order of submission
        for before in layout.earlier(state, i, index):
            if layout.waits(state, i, before) and layout.slot(state, i, before) == slot:
                return True
    return rules.gpu_capacity_mb >= 0.0 and not memory_fits(tables, rules, state, i, index, spec.gpu_mb)


def memory_fits(tables: Any, rules: Any, state: Any, i: Any, index: Any, size: Any) -> Any:
    """Return whether there is GPU memory for a call, after the calls before it that wait for memory."""
    if size == 0.0:
        return True
    e = layout.episode(state, i)
    # first come, first served: nobody overtakes a call that waits for memory, unless that one waits for its own tool
    for before in layout.earlier(state, i, index):
        if layout.waits(state, i, before):
            other = layout.slot(state, i, before)
            spec = layout.spec(tables, e, other)
            if spec.gpu_mb and not (spec.concurrency and layout.tool(state, i, other).busy >= spec.concurrency):
                return False
    # a tool that needs more than there is runs alone rather than never
    return state.gpu_used[i] + size <= rules.gpu_capacity_mb or state.gpu_used[i] == 0.0
