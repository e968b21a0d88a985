"""What an episode admits: the gateway, the budget and GPU memory, compiled; see `kernels`."""

# mypy: disable-error-code="misc,untyped-decorator,no-any-return"

from typing import Any

import numpy as np

from costgym.simulators.batch.rng import inlined
from costgym.simulators.status import Status

WAITING = -1
"""The place among simultaneous events of a call that waits to start."""
_BANNED, _OVER_BUDGET = int(Status.BANNED), int(Status.OVER_BUDGET)
_RATE_LIMITED, _QUOTA = int(Status.RATE_LIMITED), int(Status.QUOTA_EXCEEDED)


# The gateway asks in the order of `calls.refusal_at_gateway`: a call that is let through counts in the rate window, so nothing
# may refuse it after that.
@inlined
def gateway(tables: Any, rules: Any, state: Any, i: int, slot: int) -> int:
    """The status with which a call is refused now, or -1; a call that is let through counts in its rate window."""
    e = state.episodes[i]
    spec, s = tables.slots[e.task, slot], state.slots[i, slot]
    if tables.banned[e.task, e.epoch, slot]:
        return _BANNED
    if spec.quota and s.count >= spec.quota:
        return _QUOTA
    spent, limit = spent_and_limit(rules, e)
    if spent + tables.quote[e.task, e.epoch, slot] > limit:
        return _OVER_BUDGET
    if spec.rate_limit:
        # admission times of this candidate, oldest first; those that have left the window are dropped from the front
        ring, base = state.windows[i], spec.window_at
        edge, count, left = e.now - spec.window_s, np.int64(s.window), np.int64(0)
        while left < count and ring[base + left] <= edge:
            left += 1
        if left:
            count -= left
            for place in range(base, base + count):
                ring[place] = ring[place + left]
        admitted = count < spec.rate_limit
        if admitted:
            ring[base + count] = e.now
            count += 1
        s.window = count
        if not admitted:
            return _RATE_LIMITED
    return -1


@inlined
def spent_and_limit(rules: Any, e: Any) -> Any:
    """What is spent, running calls at their quoted prices, and the limit that it may not pass with another call's quote: minus
    infinity where the number of calls leaves no room."""
    limit = rules.price_limit if rules.refuse else np.inf
    if rules.refuse and e.calls + e.records + 1 > rules.calls_limit:
        limit = -np.inf
    return e.price + e.reserved, limit


@inlined
def gpu_fits(tables: Any, rules: Any, state: Any, i: int, slot: int, before: int) -> bool:
    """Return whether there is GPU memory for a call, after the calls `before` it that wait for memory."""
    e = state.episodes[i]
    size = tables.slots[e.task, slot].gpu_mb
    if rules.gpu_capacity_mb < 0.0 or size == 0.0:
        return True
    # first come, first served: nobody overtakes a call that waits for memory, unless that one waits for its own tool
    for index in range(before):
        if state.calls[i, index].order == WAITING:
            other = tables.slots[e.task, state.numbers[i, index]]
            if other.gpu_mb and not (other.concurrency and state.slots[i, state.numbers[i, index]].busy >= other.concurrency):
                return False
    # a tool that needs more than there is runs alone rather than never
    return state.gpu_used[i] + size <= rules.gpu_capacity_mb or state.gpu_used[i] == 0.0
