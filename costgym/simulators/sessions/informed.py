"""What a session is worth to somebody who knows every tool's regimes, but not the luck of a call.

For each query q and tool i: the chance p that a call brings the fact in time, its price c and its mean duration d. From these
follow the default limits, and the bound that no policy passes.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from math import exp
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from costgym.simulators.calls import CONNECTION_REFUSED_S
from costgym.simulators.failures import cumulative_kinds
from costgym.simulators.rules import session_draws
from costgym.simulators.sessions.draw import Session, call_times
from costgym.simulators.sessions.plan import SPREADS, TIMEOUT_S, plan_of
from costgym.simulators.sessions.rules import rules_of
from costgym.simulators.status import Status

Floats = NDArray[np.float64]


class Odds(NamedTuple):
    """Figures of a call by query and tool, (Q, I)."""

    chance: Floats  # that it brings the fact before the time-out, outside outages; 0 for a tool that does not serve the query
    price: Floats
    seconds: Floats  # mean duration, without loading and outages; a lower bound over the tool's usual ways to fail


def odds(session: Session) -> Odds:
    """What calls bring and cost, by the session's true regimes."""
    model = session.rules.failures
    works = np.array([1.0 - model.slip, 0.5, model.slip])[session.states]
    serves = session.offers[None, :] == session.capability[:, None]
    profiles = session.profiles
    in_time, mean = call_times(profiles)
    least = _least_failing_s(session, mean)
    seconds = works * mean + (1.0 - works) * np.minimum(least, mean)  # a call into an outage takes as long as one that works
    return Odds(np.where(serves, works * in_time, 0.0), session.factors * profiles.fee, seconds)


@lru_cache(maxsize=64)
def _ways(document: str) -> tuple[float, Floats, NDArray[np.bool_], NDArray[np.bool_]]:
    """How much a tool sticks to its usual way to fail, the share of each way, and which are quick and which time out."""
    model = rules_of(document).failures
    kinds = cumulative_kinds(model.kinds)
    quick, slow = (np.array([kind is status for _, kind in kinds]) for status in (Status.CONNECTION_ERROR, Status.TIMEOUT))
    return model.sticky, np.diff([0.0, *(edge for edge, _ in kinds)]), quick, slow


def _least_failing_s(session: Session, mean: Floats) -> Floats:
    """(I,) the mean duration of a call that fails, by the usual way to fail that is quickest."""
    sticky, shares, quick, slow = _ways(session.rules.document)
    lasts = np.where(quick[:, None], CONNECTION_REFUSED_S, np.where(slow[:, None], TIMEOUT_S, mean[None, :]))
    usual = sticky * lasts + (1.0 - sticky) * (shares @ lasts)
    least: Floats = usual.min(axis=0)
    return least


def spending(session: Session) -> tuple[float, float]:
    """Price and seconds that the informed policy spends without limits, on average, every fact that comes again bought once.

    It calls the tool with the lowest price over chance until the fact is there, unless the query is worth less than that.
    """
    figures = odds(session)
    with np.errstate(divide="ignore"):
        cost = np.where(figures.chance > 0, figures.price / figures.chance, np.inf)
        time = np.where(figures.chance > 0, figures.seconds / figures.chance, np.inf)
    best = cost.argmin(axis=1)
    rows = np.arange(len(best))
    bought = (session.fact == rows) & (cost[rows, best] <= session.value)
    return float(cost[rows, best][bought].sum()), float(time[rows, best][bought].sum())


def limits(session: Session) -> tuple[float, float]:
    """The default limits on price and seconds: the rules' share of `spending`, at least a call of every kind; of version 1, see
    `session_draws.limits`."""
    if session.rules.world == 1:
        columns = session.profiles.fee, session.profiles.latency_s, np.searchsorted(SPREADS, session.profiles.latency_spread)
        specs = [SimpleNamespace(fee=fee, latency_s=at, spread=spread) for fee, at, spread in zip(*columns, strict=True)]
        plan, states = plan_of(session.rules.document), session.states[0].tolist()
        shares: tuple[float, float] = session_draws.limits(plan, session.kinds, specs, session.offers, states, len(specs))
        return shares
    price, seconds = spending(session)
    share = session.rules.budget_share
    return round(max(share * price, 10.0), 2), round(max(share * seconds, TIMEOUT_S), 1)


def value_bound(session: Session, price: float, seconds: float) -> float:
    """A value that no policy exceeds on average, whatever it knows of the tools' states: a linear program's dual.

    Let x[q, i] be the mean number of calls of tool i during query q that end before the deadline, s[q] = sum_i p[q, i] x[q, i]
    the mean number of those that bring the query's fact, and y[q] the chance that the query passes.

    1. Luck of different calls is independent given the states, so s[q] is the mean number of successes (optional stopping).
    2. A query passes only by a call of its own, or from memory; memory holds a fact only if an earlier query (or this one)
       with the same fact had a call that brought it. So y[q] <= min(1, sum of s over the queries up to q with its fact).
       That a fact may have died and that outages lower p is left out, which can only raise the bound.
    3. Flat fees are charged for every executed call, and a call is made only if the rest of the budget covers it: in every
       episode the prices of the calls add up to at most the limit, hence sum c x <= price.
    4. Calls follow one another; all but the last end before the deadline, and a call takes at most the time-out and its load:
       sum d x <= seconds + the longest call, where d is a lower bound of a call's mean duration. Where calls may run side by
       side this does not hold, and infinite seconds leave it out; a call then belongs to the query that it was made for.

    The bound is the maximum of sum v y under 2 to 4. By weak duality each l, m >= 0 gives an upper bound of it,
    ``l price + m (seconds + longest) + sum over facts of max(0, max_q (V[q] - k[q]))``, with k[q] = min_i (l c + m d) / p and
    V[q] the value of the queries from q on with q's fact: for fixed l and m the problem falls into one for each fact, where
    buying once, at the best moment, is optimal, since the objective is linear in s as long as its sum is at most 1, and more
    than that brings nothing. The function is convex in l and m; it is minimised by alternating line searches, and every
    point on the way is a bound, so how well it is minimised does not matter for the claim. Infinite limits are none.
    """
    figures = odds(session)
    room_s = seconds + TIMEOUT_S + float(session.profiles.cold_start_s.max())
    later = _values_from_here(session)
    rows = np.arange(session.rules.queries)
    order = np.argsort(session.fact, kind="stable")
    starts = np.flatnonzero(np.diff(session.fact[order], prepend=-1))

    def dual(l: float, m: float) -> float:  # noqa: E741
        with np.errstate(divide="ignore", invalid="ignore"):
            rated = np.where(figures.chance > 0, (l * figures.price + m * figures.seconds) / figures.chance, np.inf)
        gain = later[rows] - rated.min(axis=1)
        best = np.maximum.reduceat(gain[order], starts)
        total = float(np.maximum(best, 0.0).sum())
        return total + (l * price if l else 0.0) + (m * room_s if m else 0.0)

    def search(of: Callable[[float], float], uses: Floats) -> float:
        # at this multiplier not even the best fact is worth its cheapest call
        low, high = 0.0, float(later.max() / max(1e-9, (uses / np.maximum(figures.chance, 1e-9)).min()))
        ratio = (5**0.5 - 1) / 2
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        at_left, at_right = of(left), of(right)
        for _ in range(60):
            if at_left <= at_right:
                high, right, at_right = right, left, at_left
                left = high - ratio * (high - low)
                at_left = of(left)
            else:
                low, left, at_left = left, right, at_right
                right = low + ratio * (high - low)
                at_right = of(right)
        return (low + high) / 2

    bound, l, m = dual(0.0, 0.0), 0.0, 0.0  # noqa: E741
    for _ in range(3):
        if np.isfinite(price):
            l = search(partial(dual, m=m), figures.price)  # noqa: E741
            bound = min(bound, dual(l, m))
        if np.isfinite(seconds):
            m = search(partial(dual, l), figures.seconds)
            bound = min(bound, dual(l, m))
    return min(bound, float(session.value.sum()))


class Program:
    """The program of `value_bound` for the rest of a session, whose multipliers a policy follows."""

    def __init__(self, session: Session) -> None:
        figures, rows = odds(session), np.arange(session.rules.queries)
        width = int(np.bincount(session.offers).max())
        slots = np.zeros((session.kinds, width), np.int64)
        for kind in range(session.kinds):
            serving = np.flatnonzero(session.offers == kind)
            slots[kind] = np.resize(serving, width)  # the same tool twice changes no minimum
        columns = slots[session.capability]
        with np.errstate(divide="ignore", invalid="ignore"):
            chance = figures.chance[rows[:, None], columns]
            # (Q, T) price and seconds for a fact, by the tools that serve each query
            self._price, self._seconds = (
                figure[rows[:, None], columns] / chance for figure in (figures.price, figures.seconds)
            )
        self._session, self._later = session, np.zeros(session.rules.queries)
        self._following = np.full(session.rules.queries, -1)  # (Q,) the next query with the same fact
        last: dict[int, int] = {}
        for query in range(session.rules.queries - 1, -1, -1):
            fact = int(session.fact[query])
            self._following[query] = last.get(fact, -1)
            last[fact] = query

    def solve(self, query: int, price: float, seconds: float, known: Iterable[int]) -> tuple[float, float]:
        """What a unit of money and a second are worth, given what is left before a query and the facts that are `known`."""
        session, count = self._session, self._session.rules.queries
        pace = (seconds if np.isfinite(seconds) else 0.0) / max(1, count - query)
        for at in range(count - 1, query - 1, -1):
            following = int(self._following[at])
            dies = exp(-(following - at) * pace / session.rules.ttl_s)
            self._later[at] = 0.0 if following < 0 else dies * (session.value[following] + self._later[following])
        worth = (session.value + self._later)[query:]
        firsts = np.unique(session.fact[query:], return_index=True)[1]
        firsts = firsts[~np.isin(session.fact[query:][firsts], list(known))]  # each fact is bought when it is asked for first
        gains, prices, lasts = worth[firsts], self._price[query:][firsts], self._seconds[query:][firsts]

        def dual(of_price: float, of_second: float) -> float:
            rated = (of_price * prices + of_second * lasts).min(axis=1, initial=np.inf)
            total = float(np.maximum(0.0, gains - rated).sum())
            return total + (of_price * price if of_price else 0.0) + (of_second * seconds if of_second else 0.0)

        multipliers = [0.0, 0.0]
        for turn in range(6):
            if np.isfinite((price, seconds)[turn % 2]):
                cheapest = (prices, lasts)[turn % 2].min(initial=np.inf)
                highest = float(gains.max(initial=0.0) / max(cheapest, 1e-9))
                # one multiplier after the other, the other one fixed
                along = partial(dual, of_second=multipliers[1]) if turn % 2 == 0 else partial(dual, multipliers[0])
                multipliers[turn % 2] = _least(along, highest)
        return multipliers[0], multipliers[1]

    def worth_later(self, query: int) -> float:
        """What a query's fact is worth to later queries, as of the last solution."""
        return float(self._later[query]) if query < len(self._later) else 0.0


def _least(of: Callable[[float], float], highest: float) -> float:
    """Where a convex function is least between 0 and `highest`, by trisection on squares, which lie closer near 0."""
    low, high = 0.0, highest**0.5
    for _ in range(14):
        left, right = low + (high - low) / 3.0, high - (high - low) / 3.0
        if of(left * left) <= of(right * right):
            high = right
        else:
            low = left
    middle: float = (low + high) / 2.0
    return middle * middle


def _values_from_here(session: Session) -> Floats:
    """(Q,) the value of the queries from each one on that ask for its fact."""
    later = session.value.copy()
    last: dict[int, int] = {}
    for query in range(len(later) - 1, -1, -1):
        fact = int(session.fact[query])
        if fact in last:
            later[query] += later[last[fact]]
        last[fact] = query
    return later
