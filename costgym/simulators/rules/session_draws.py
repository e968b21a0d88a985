"""How sessions of version 1 are drawn, by counter: each draw is a function of the session's number and of what it is for.

So a batch draws its sessions where it plays them, and what moves between queries when the query has come. Of a tool that moves,
the next moment is drawn, not whether it moves at each query: gaps between events of one chance are geometric.
"""

from math import inf
from typing import Any

from costgym.simulators.rules import layout

QUERIES, LIVES, TOOLS, REGIMES, PRICES = (region << 40 for region in range(5))  # where the draws of each kind begin
MOST_TOOLS = 64
NEVER = 1 << 30
WHOLE_PRICE = 2  # of the factors on prices the one that a session begins with
LOWEST, HIGHEST = 2, 20  # value of a query
LEAST_PRICE, LEAST_S = 10.0, 30.0  # of the default limits: a call of any kind


def query(plan: Any, kinds: Any, number: Any, index: Any) -> Any:
    """A query's kind, its value, and the query whose fact and kind it has: itself, or an earlier one."""
    kind, worth, again, which = layout.session_uniforms(plan, number, QUERIES + index)
    first = index
    if again < plan.again:
        first = int(which * index)
    return int(kind * kinds), LOWEST + float(int(worth * (HIGHEST - LOWEST + 1))), first


def life_s(plan: Any, number: Any, index: Any) -> Any:
    """How long the fact lives that is found for a query."""
    luck, _, _, _ = layout.session_uniforms(plan, number, LIVES + index)
    return -plan.ttl_s * layout.log(1.0 - luck)


def gap(rate: Any, luck: Any) -> Any:
    """Queries until the next move; `rate` is the logarithm of the chance that there is none between two queries."""
    if rate == 0.0:
        return NEVER
    return 1 + int(min(layout.log(1.0 - luck) / rate, 1e9))


def regime(plan: Any, number: Any, slot: Any, move: Any, alive: Any, half: Any) -> Any:
    """The state of a tool after so many moves, 0 alive, 1 degraded, 2 dead, and the queries until the next one; `alive` and
    `half` are the edges of the first two among uniforms."""
    luck, until, _, _ = layout.session_uniforms(plan, number, REGIMES + move * MOST_TOOLS + slot)
    return 0 if luck < alive else 1 if luck < half else 2, gap(plan.drift, until)


def price(plan: Any, number: Any, slot: Any, move: Any) -> Any:
    """The index of the factor on a tool's price after so many moves, and the queries until the next one."""
    luck, until, _, _ = layout.session_uniforms(plan, number, PRICES + move * MOST_TOOLS + slot)
    return int(luck * plan.prices) if move else WHOLE_PRICE, gap(plan.price_drift, until)


def tool(plan: Any, number: Any, slot: Any, spec: Any) -> Any:
    """Draw the tool of a slot into `spec`; returns the index of its reliability, its provider, and what it advertises: chance
    of success and seconds."""
    row = TOOLS + 4 * slot
    reliable, claims, fees, median = layout.session_uniforms(plan, number, row)
    spread, slower, loads, load = layout.session_uniforms(plan, number, row + 1)
    keeps, window, limited, bounded = layout.session_uniforms(plan, number, row + 2)
    of, quota, _, _ = layout.session_uniforms(plan, number, row + 3)
    index = min(first_above(plan.edges, reliable), len(plan.points) - 1)
    fee = int(fees * 10.0)
    spec.fee = 1.0 + fee
    # dear tools are a little faster and no more reliable: what a price buys has to be found out
    spec.latency_s = latency_s = plan.medians[int(median * plan.quantiles)] * plan.haste[fee]
    spec.spread = int(spread * plan.spreads)
    spec.cold_start_s = 0.3 + 3.7 * (load * load) if loads < 0.3 else 0.0
    spec.keep_alive_s = 20.0 + 100.0 * keeps
    spec.rate_limit = 3 + int(window * 8.0) if limited < plan.limited_share else 0
    spec.quota = 10 + int(quota * 30.0) if bounded < plan.quota_share else 0
    advert = plan.floor + (1.0 - plan.floor) * plan.points[index] + plan.claims[int(claims * plan.quantiles)]
    return index, int(of * plan.providers), min(1.0, max(0.0, advert)), latency_s * (0.85 + 0.3 * slower)


def first_above(values: Any, value: Any) -> Any:
    """The first index whose value, of ascending ones, is above another; their number where none is."""
    low, high = 0, len(values)
    while low < high:
        middle = (low + high) // 2
        if value < values[middle]:
            high = middle
        else:
            low = middle + 1
    return low


def usual_cost(plan: Any, spec: Any, state: Any) -> Any:
    """Price and seconds that a tool takes on average for a fact while it stays in a state."""
    factors, whole = plan.factors[spec.spread], plan.quantiles
    count = whole
    if factors[whole - 1] * spec.latency_s > plan.timeout_s:
        count = first_above(factors, plan.timeout_s / spec.latency_s)
    lasts = (spec.latency_s * plan.sums[spec.spread, count] + (whole - count) * plan.timeout_s) / whole
    works = plan.works[state]
    fails = plan.timeouts * plan.timeout_s + plan.refusals * plan.refused_s + (1.0 - plan.timeouts - plan.refusals) * lasts
    chance = works * plan.up * count / whole
    return spec.fee / chance, (works * lasts + (1.0 - works) * fails) / chance


def limits(plan: Any, kinds: Any, specs: Any, offers: Any, states: Any, count: Any) -> Any:
    """The default limits on price and seconds: a share of what somebody spends who knows the states that `count` tools have at
    the start, where they stay, and buys each fact once, from the tool with the lowest price, if the query is worth that."""
    price = seconds = 0.0
    for kind in range(kinds):
        least, takes = inf, inf
        for slot in range(count):
            if offers[slot] == kind:
                cost, lasts = usual_cost(plan, specs[slot], states[slot] & 3)
                if cost < least:
                    least, takes = cost, lasts
        bought = HIGHEST - LOWEST + 1  # of the values that a query may have, the number of those that are worth the cost
        while bought > 0 and HIGHEST + 1 - bought < least:
            bought -= 1
        if bought > 0:
            price += bought * least
            seconds += bought * takes
    facts = plan.share * (1.0 + (plan.queries - 1) * (1.0 - plan.again)) / (kinds * (HIGHEST - LOWEST + 1))
    price, seconds = max(LEAST_PRICE, facts * price), max(LEAST_S, facts * seconds)
    return int(100.0 * price + 0.5) / 100.0, int(10.0 * seconds + 0.5) / 10.0
