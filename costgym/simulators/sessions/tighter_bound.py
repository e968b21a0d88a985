"""A bound of a session's value below `value_bound`: it counts limits on calls, how calls fail, and that facts die."""

from collections.abc import Callable, Sequence
from functools import partial
from math import ceil, exp, inf

import numpy as np
from numpy.typing import NDArray

from costgym.simulators.calls import CONNECTION_REFUSED_S
from costgym.simulators.sessions.draw import Session, call_durations
from costgym.simulators.sessions.informed import value_bound
from costgym.simulators.sessions.plan import TIMEOUT_S, WINDOW_S, kind_shares
from costgym.simulators.status import Status

Floats = NDArray[np.float64]
ROOM_S = 2.0  # see step 2 of the proof; of 0, 2, 5 and 10 the one with the lowest bounds on `train`
_STEPS = 300  # of the durations among which the time that a success takes is sought
_SEARCH = 16  # steps of a line search


def tighter_bound(session: Session, price: float, seconds: float, usual: Sequence[Status]) -> float:
    """A value that no policy exceeds on average over luck and over the lives of facts, whatever it knows of the tools' states
    and of their usual ways to fail, (I,) `usual`. Averaged over the draws of these ways it bounds policies that do not know
    them, since knowledge can be ignored. It is at most `value_bound`, whose proof and names it continues: x[q, i], s[q, i] and
    y[q] are means of calls outside outages, of successes, and of passing. Calls follow one another; infinite seconds stand for
    calls side by side, and leave out all that follows from their order.

    1. *Limits on calls.* No policy calls a tool more often than its quota, or than its rate limit in each of the windows that
       cover the session: sum over q of x[q, i] <= most[i], with a multiplier n[i] >= 0. Calls into an outage only use more.
    2. *Seconds.* Whether a provider is down does not depend on a call's luck, so a call outside outages has the chance p and
       the duration D of its tool's state and usual way to fail. With z seconds left when it starts, it succeeds in time with
       the chance p(z) = P(success, D <= z) and takes min(D, z). Let r(z) = min(z, ROOM_S), and t[q, i] at most
       ``(E min(D, z) + r(z) - E r(max(0, z - D))) / p(z)`` for all z. Then t p(z), which a call adds on average to the sum of
       t over successes, is at most what the call takes from z + r(z), and summed over the session's calls:
       sum of t s <= seconds + ROOM_S. A call that first loads its tool takes longer for no more.
    3. *Deaths.* Let a[q, g] be the chance that fact g is in memory and alive when query q begins. Lives are exponential and
       independent of all else, so a call kills each fact alive with the chance e[q, i] = E[1 - exp(-D / ttl)] at least. Let
       u[q, i] = e / p, and for any U >= 0, k = U / (1 + U) and k[i] = min(u[q, i], U) / (1 + U). While g lives during q, a
       call of i adds at most p k[i] - e + e k <= 0 to the mean of (k of the tool that succeeds in q, less 1 if g dies), as
       after the death a success still adds k at most. Hence P(g dies in q) >= sum over i of k[i] P(i succeeds in q, g alive
       at its beginning), and as one call at most succeeds in q, for each g that q does not ask for

           a[q + 1, g] <= (1 - k) a[q, g] + k - sum over i of k[i] s[q, i].

       The fact f that q asks for has y[q], a[q + 1, f] <= min(1, a[q, f] + sum of s[q, i]), and a = 0 before it is asked for.
    4. *Dual.* With weights l on money, m on seconds, n on limits and C[q, g] >= 0 on these inequalities, weak duality gives
       ``l price + m (seconds + ROOM_S) + sum of n most + sum over q of (k S[q] + max(0, W[q] - K[q]))``, where S[q] is the sum
       of C[q + 1, g] over the other facts, W[q] = value[q] + C[q + 1, f], and K[q] is the least over the tools of
       ``l c / p + m t + n / p + k[i] S[q]``; C[q, g] = (1 - k) C[q + 1, g], and C[q, f] = min(W[q], K[q]), or 0 where f was
       not asked for before. Any l, m, n and U give a bound, so how well they are chosen does not matter for the claim.

    What is still left out: outages, cold starts, that luck makes spending uneven, and that facts and tools are not known.
    """
    dual = _Dual(session, price, seconds, usual)
    return min(value_bound(session, price, seconds), dual.least())


def _fates(session: Session, usual: Sequence[Status]) -> tuple[Floats, Floats, Floats]:
    """(I, 3) by tool and state: the chance p of a success, the seconds t of one, and the chance e that a call kills a fact."""
    model = session.rules.failures
    timeouts, refusals = kind_shares(model)
    fates = np.empty((len(usual), 3, 3))
    for tool, durations in enumerate(call_durations(session.profiles)):
        late = model.sticky * (usual[tool] == Status.TIMEOUT) + (1.0 - model.sticky) * timeouts
        refused = model.sticky * (usual[tool] == Status.CONNECTION_ERROR) + (1.0 - model.sticky) * refusals
        for state, works in enumerate((1.0 - model.slip, 0.5, model.slip)):
            shares = works, (1.0 - works) * late, (1.0 - works) * refused
            fates[tool, state] = _fate(durations, *shares, session.rules.ttl_s)
    chance, seconds, kills = np.moveaxis(fates, 2, 0)
    return chance, seconds, kills


def _fate(durations: Floats, works: float, late: float, refused: float, ttl_s: float) -> tuple[float, float, float]:
    """p, t and e of a tool that works, times out and refuses a connection with these chances, and else fails as late as it
    works; `durations` are quantiles of its calls'."""
    cut, runs = np.minimum(durations, TIMEOUT_S), 1.0 - late - refused
    alive = (
        runs * float(np.exp(-cut / ttl_s).mean())
        + late * exp(-TIMEOUT_S / ttl_s)
        + refused * exp(-CONNECTION_REFUSED_S / ttl_s)
    )
    sums = np.concatenate([[0.0], cut.cumsum()])

    def takes(z: Floats) -> Floats:
        """E min(D, z)."""
        count = np.searchsorted(cut, z, "right")
        within: Floats = (sums[count] + (len(cut) - count) * z) / len(cut)
        return runs * within + late * np.minimum(TIMEOUT_S, z) + refused * np.minimum(CONNECTION_REFUSED_S, z)

    # between two moments p(z) is taken at the later one, and the seconds so that they are too few
    left = np.geomspace(0.999 * durations[0], 2.0 * TIMEOUT_S, _STEPS)
    in_time = works * np.searchsorted(durations, np.minimum(left, TIMEOUT_S), "right") / len(durations)
    # E min(D, z) + r(z) - E r(max(0, z - D)), since max(0, z - D) = z - min(D, z)
    lasts = 2.0 * takes(left[:-1]) - takes(np.maximum(0.0, left[1:] - ROOM_S))
    with np.errstate(divide="ignore"):
        seconds = np.where(in_time[1:] > 0.0, lasts / in_time[1:], inf).min()
    return float(in_time[-1]), float(seconds), 1.0 - alive


class _Dual:
    """The dual of `tighter_bound`, and its multipliers."""

    def __init__(self, session: Session, price: float, seconds: float, usual: Sequence[Status]) -> None:
        profiles, rows = session.profiles, np.arange(session.rules.queries)[:, None]
        width = int(np.bincount(session.offers).max())
        serving = [np.resize(np.flatnonzero(session.offers == kind), width) for kind in range(session.kinds)]
        self._tools = np.array(serving)[session.capability]  # (Q, T) that serve each query; twice changes no minimum
        states = session.states[rows, self._tools]
        chance, lasts, kills = (figure[self._tools, states] for figure in _fates(session, usual))
        self._calls = 1.0 / chance  # (Q, T) for a success
        self._price = (session.factors * profiles.fee)[rows, self._tools] / chance
        self._seconds, self._kills = lasts, kills / chance
        windows = ceil(seconds / WINDOW_S) if seconds < inf else inf
        self._most = np.where(profiles.quota > 0, profiles.quota, inf)
        limited = profiles.rate_limit > 0
        self._most[limited] = np.minimum(self._most[limited], profiles.rate_limit[limited] * windows)
        self._limits, self._ordered = (price, seconds + ROOM_S), seconds < inf
        self._fact, self._value = session.fact.tolist(), session.value.tolist()
        self._extra = np.zeros(len(usual))  # n

    def least(self) -> float:
        """The lowest value that line searches find along one multiplier after the other."""
        worth, multipliers = sum(self._value), [0.0, 0.0]
        best = self(0.0, 0.0)
        for turn in range(5):
            which = turn % 2
            if self._limits[which] == inf:
                continue
            highest = worth / max(1e-9, float((self._price, self._seconds)[which].min()))
            of = partial(self, m=multipliers[1]) if which == 0 else partial(self, multipliers[0])
            multipliers[which], value = _least(of, highest if turn < 2 else 2.0 * multipliers[which] + 1e-3)
            best = min(best, value)
            if turn == 2:
                best = min(best, self._charge_limits(*multipliers))
        return best

    def _charge_limits(self, l: float, m: float) -> float:  # noqa: E741
        """Charge the calls of tools that are called more often than they can be; returns the lowest value."""
        called = np.zeros(len(self._extra))
        best = self(l, m, called)
        for tool in np.flatnonzero(called > self._most).tolist():

            def of(extra: float, tool: int = tool) -> float:
                self._extra[tool] = extra
                return self(l, m)

            self._extra[tool], value = _least(of, max(self._value))
            best = min(best, value)
        return best

    def __call__(self, l: float, m: float, called: Floats | None = None) -> float:  # noqa: E741
        """The dual's value; adds to (I,) `called` how often each tool is called."""
        (price, seconds), charged = self._limits, self._extra > 0.0
        rated = l * self._price + m * self._seconds + self._extra[self._tools] * self._calls
        lowest, kills = rated.min(axis=1).tolist(), self._kills
        total = (l * price if l else 0.0) + (m * seconds if m else 0.0)
        total += float((self._extra[charged] * self._most[charged]).sum())
        # weights C over `scale`, so that all of them shrink at once; `others` is S
        weights: dict[int, float] = {}
        scale, others = 1.0, 0.0
        for query in range(len(lowest) - 1, -1, -1):
            fact, least = self._fact[query], lowest[query]
            weight = weights.pop(fact, 0.0) * scale
            others, worth = max(0.0, others - weight), self._value[query] + weight
            if worth > least and called is not None:
                best = int(rated[query].argmin())
                called[self._tools[query, best]] += self._calls[query, best]
            if worth > least and others > 1e-9 and self._ordered:
                # U is that of the cheapest tool, unless the query would not be worth that much
                ratios, spare = kills[query], (worth - least) / others
                most = float(ratios[(rated[query] + ratios * others).argmin()])
                most = min(most, spare / (1.0 - spare)) if spare < 1.0 else most
                share = most / (1.0 + most)
                least = float((rated[query] + np.minimum(ratios, most) * (others / (1.0 + most))).min())
                total += share * others
                scale, others = scale * (1.0 - share), others * (1.0 - share)
            total += max(0.0, worth - least)
            if fact != query:
                weights[fact] = min(worth, least) / scale
                others += min(worth, least)
        return total


def _least(of: Callable[[float], float], highest: float) -> tuple[float, float]:
    """Where a convex function is least between 0 and `highest`, by golden sections on squares, which lie closer near 0, and
    the lowest value on the way."""
    ratio, low, high = (5.0**0.5 - 1.0) / 2.0, 0.0, highest**0.5
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    values = {square: of(square * square) for square in (left, right)}
    for _ in range(_SEARCH):
        if values[left] <= values[right]:
            high, right = right, left
            new = left = high - ratio * (high - low)
        else:
            low, left = left, right
            new = right = low + ratio * (high - low)
        values[new] = of(new * new)
    square = min(values, key=lambda square: values[square])
    return square * square, values[square]
