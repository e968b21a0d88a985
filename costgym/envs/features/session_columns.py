"""Compute the columns of a session's observation, as functions of numbers.

`session_features` calls them, and `vector.kernels.sessions` compiles them. What is written where stays twice: one environment
hands out new arrays at every step, kernels write into those of N environments what has changed, which is most of their speed.
Lockstep holds the two together.
"""

from math import inf
from typing import Any

from costgym.simulators.draws import decay, log
from costgym.simulators.sessions.rules import VALUES
from costgym.simulators.status import LIMITS, LOOKS_OK, Status

RECENT = 0.7  # weight of the past in `recent_ok`
HALF_S = 60.0  # seconds that version 1 shows as a half in `since_s` and `outage_ago_s`
CLOCK, CALL, CREDITS, SECONDS, CALLS, QUERIES = (log(1.0 + most) for most in (1e4, 60.0, 1e5, 1e6, 1e5, 1e4))
"""Logarithms of what is shown as 1: seconds of a session and of a call, then what is left of money, time, calls and queries."""
HIGHEST_VALUE = float(VALUES[1])
TIMEOUT, NOT_CONNECTED, OUTAGE = Status.TIMEOUT, Status.CONNECTION_ERROR, Status.OUTAGE
_LIMITS = sum(1 << int(status) for status in LIMITS)
_LOOKS_OK = sum(1 << int(status) for status in LOOKS_OK if status is not Status.EMPTY)


def log_share(amount: Any, whole: Any) -> Any:
    """An amount on a logarithmic scale, of which `whole` is the logarithm that is shown as 1."""
    return min(1.0, log(1.0 + amount) / whole)


def ago(seconds: Any) -> Any:
    """Seconds that have passed, as version 0 shows them."""
    return min(1.0, log(1.0 + max(seconds, 0.0)) / 7.0)


def since(version: Any, seconds: Any) -> Any:
    """Seconds that have passed, as a version of the observation shows them."""
    return seconds / (seconds + HALF_S) if version else ago(seconds)


def looks_ok(status: Any) -> Any:
    """Return whether a call that ended so looks as if it worked."""
    return (_LOOKS_OK >> status) & 1 == 1


def limited(status: Any) -> Any:
    """Return whether a limit of the tool has refused a call."""
    return (_LIMITS >> status) & 1 == 1


def recent_ok(before: Any, right: Any) -> Any:
    """The weighted share of a tool's calls that worked, after another one."""
    return RECENT * before + (1.0 - RECENT) * right


def past(ended: Any, right: Any, recent: Any, failures: Any) -> Any:
    """What an agent's counts for a tool show: `calls`, `mean_ok`, `recent_ok` and `failures_in_a_row`."""
    return min(1.0, log(1.0 + ended) / 5.0), (right + 1.0) / (ended + 2.0), recent, min(1.0, failures / 5.0)


def causes(ended: Any, right: Any, timeouts: Any, refusals: Any, all_s: Any) -> Any:
    """Likewise `mean_s`, `timed_out` and `not_connected`; `all_s` counts the advertised seconds as one more call."""
    failed = max(1, ended - right)
    return log_share(all_s / (ended + 1.0), CALL), timeouts / failed, refusals / failed


def one_more(share: Any) -> Any:
    """A share that counts up to four calls, with one more of them."""
    return min(1.0, share + 0.25)


def age(seconds: Any, ttl_s: Any) -> Any:
    """The age of a fact in memory, in units of four mean lives."""
    return min(1.0, seconds / ttl_s / 4.0)


def life(age_s: Any, checked_ago_s: Any, ttl_s: Any) -> Any:
    """The same in seconds, and the chance that the fact is alive."""
    return log_share(age_s, CLOCK), decay(checked_ago_s / ttl_s)


def progress(called: Any, query: Any, queries: Any) -> Any:
    """Calls made for the present query, and the share of the queries that are left."""
    return min(1.0, called / 10.0), 1.0 - query / queries


def resources(rules: Any, price: Any, now: Any, step: Any, value: Any, queries: Any) -> Any:
    """The session as a whole: what is left of money and time, the clock, the steps' share and the value."""
    price_left, seconds_left = max(0.0, 1.0 - price / rules.price_limit), max(0.0, 1.0 - now / rules.seconds_limit)
    return price_left, seconds_left, log_share(now, CLOCK), min(1.0, step), value / (HIGHEST_VALUE * queries)


def left(limit: Any, used: Any, whole: Any) -> Any:
    """What is left of a limit in absolute terms, and whether there is none."""
    if limit == inf:
        return 1.0, 1.0
    return log_share(max(0.0, limit - used), whole), 0.0


def absolute(rules: Any, price: Any, now: Any, calls: Any, facts: Any, lasted_s: Any) -> Any:
    """What is left of money, time and calls, the share of facts in memory, and how long the last action took."""
    price_left, no_price_limit = left(rules.price_limit, price, CREDITS)
    seconds_left, no_seconds_limit = left(rules.seconds_limit, now, SECONDS)
    calls_left, no_calls_limit = left(rules.calls_limit, calls, CALLS)
    last_s = log_share(lasted_s, CALL)
    return price_left, no_price_limit, seconds_left, no_seconds_limit, calls_left, no_calls_limit, facts, last_s


def last_end(status: Any) -> Any:
    """How the last action ended: whether it timed out, did not connect, met an outage, or was refused by a limit."""
    return status == TIMEOUT, status == NOT_CONNECTED, status == OUTAGE, limited(status)
