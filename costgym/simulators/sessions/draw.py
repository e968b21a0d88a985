"""Draw a session: its catalogue, its queries, and how its tools drift, from its rules and number alone."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from itertools import zip_longest
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costgym.simulators.calls import NORMAL_QUANTILES, QUANTILES, latency_factors
from costgym.simulators.errors import ConfigError
from costgym.simulators.failures import state_chances
from costgym.simulators.rules import session_draws as book
from costgym.simulators.scenario import Scenario, worlds_of
from costgym.simulators.sessions.plan import FACTORS, SPREADS, TIMEOUT_S, WINDOW_S, plan_of
from costgym.simulators.sessions.rules import VALUES, SessionRules, rules_of
from costgym.simulators.tools import Tool, ToolProfile
from costgym.simulators.world.belief import reliabilities

Floats = NDArray[np.float64]
ALIVE, DEGRADED, DEAD = range(3)
_MEDIUM = 1  # size level of a world's tools at which sessions take their durations
HIGHEST_FEE = 10.0  # of a world's tool, in the currency of the queries' values
_NEEDED = {"pricing": "flat", "bill_failures": True, "tokens": None, "events": ()}
"""Rules of a scenario that sessions have too; under others a session would not be what its scenario says."""
_QUANTILES = np.asarray(NORMAL_QUANTILES)


class Profiles(NamedTuple):
    """The tools' profiles by slot, (I,) each; see `tools.ToolProfile`."""

    fee: Floats
    latency_s: Floats
    latency_spread: Floats
    cold_start_s: Floats
    keep_alive_s: Floats
    rate_limit: NDArray[np.int64]
    quota: NDArray[np.int64]
    reliability: Floats
    advertised_success: Floats
    advertised_latency_s: Floats


@dataclass(frozen=True)
class Session:
    """A session as drawn: Q queries, I tools. What agents may not know is marked as hidden."""

    rules: SessionRules
    number: int
    capability: NDArray[np.int64]  # (Q,) the capability that each query needs
    fact: NDArray[np.int64]  # (Q,) the fact that it asks for, by the query that asked for it first
    value: Floats  # (Q,) what it is worth
    profiles: Profiles  # of the tools; their reliabilities are hidden
    offers: NDArray[np.int64]  # (I,) the capability of each tool
    provider: NDArray[np.int64]  # (I,) its provider
    states: NDArray[np.int64]  # (Q, I) the latent state of each tool during each query; hidden
    factors: Floats  # (Q, I) factor on each tool's price during each query; seen when the query has come
    lives_s: Floats  # (Q,) life of a fact that is found for each query, simulated seconds; hidden
    world_tools: tuple[Tool, ...] = ()  # the world's tools by slot; empty where the catalogue was drawn

    @property
    def kinds(self) -> int:
        """Kinds of queries that are asked, at most those of the rules."""
        return int(self.offers.max()) + 1

    @cached_property
    def tools(self) -> tuple[Tool, ...]:
        """The catalogue, one tool a slot. Compiled code does without these objects, which take longer to make than to draw."""
        columns = (*(column.tolist() for column in self.profiles), self.offers.tolist(), self.provider.tolist())
        world_tools = self.world_tools or (None,) * len(self.offers)
        return tuple(_tool(slot, *figures) for slot, figures in enumerate(zip(world_tools, *columns, strict=True)))


def draw_session(rules: SessionRules, number: int) -> Session:
    """Draw a session; equal rules and numbers give equal sessions in every process. A rule changes what it is about and nothing
    else, so that sessions under other rules can be compared in pairs."""
    return _drawn(rules.document, number)


@lru_cache(maxsize=64)
def _drawn(document: str, number: int) -> Session:
    rules = rules_of(document)
    world_tools: tuple[Tool, ...] = ()
    queries, tools, kinds = rules.queries, rules.tools, rules.capabilities
    if rules.scenario is None:
        offers = np.arange(tools) % kinds
    else:
        world_tools, offers = offered(rules, number)
        tools, kinds = len(offers), int(offers.max()) + 1
    if rules.world == 1:
        return _drawn_by_counter(rules, number, world_tools, offers)
    uniform = rules.generator(number, "session").random
    capability, fact, value = draw_queries(rules, kinds, uniform((4, queries)))
    life = uniform(queries)
    if world_tools:
        provider = _providers_of(world_tools, rules)
        profiles = _profiles_of(world_tools)
    else:
        provider = (uniform(tools) * rules.providers).astype(np.int64)
        profiles = draw_profiles(document, uniform((12, tools)))
    states = regimes(rules, profiles.reliability, uniform((queries, tools)), uniform((queries, tools)))
    changes = uniform((queries, tools)) < rules.price_drift
    factors = prices(changes, uniform((queries, tools)), np.ones(tools))
    lives = -rules.ttl_s * np.log1p(-life)
    drawn = capability, fact, value, profiles, offers, provider, states, factors, lives
    return Session(rules, number, *drawn, world_tools)


def _drawn_by_counter(rules: SessionRules, number: int, world_tools: tuple[Tool, ...], offers: NDArray[np.int64]) -> Session:
    """Draw a session of version 1; see `rules.session_draws`."""
    plan, queries, tools, kinds = plan_of(rules.document), rules.queries, len(offers), int(offers.max()) + 1
    if world_tools:
        provider, profiles = _providers_of(world_tools, rules), _profiles_of(world_tools)
        states = np.array([state_chances(share, rules.failures.slip) for share in profiles.reliability.tolist()])
        edges = np.column_stack([states[:, 0], states.sum(axis=1)])
    else:
        provider, reliability, profiles = _counted_profiles(rules, number, tools)
        edges = np.column_stack([plan.alive[reliability], plan.half[reliability]])
    capability, fact, value = np.zeros(queries, np.int64), np.arange(queries), np.zeros(queries)
    for query in range(queries):
        capability[query], value[query], first = book.query(plan, kinds, number, query)
        if first < query:
            fact[query], capability[query] = fact[first], capability[first]
    regime, price = np.zeros((2, queries, tools), np.int64)
    for slot in range(tools):
        alive, half = edges[slot].tolist()
        _follow(regime[:, slot], partial(_regime_after, plan, number, slot, alive, half))
        _follow(price[:, slot], partial(book.price, plan, number, slot))
    lives = np.array([book.life_s(plan, number, query) for query in range(queries)])
    drawn = capability, fact, value, profiles, offers, provider, regime, np.asarray(FACTORS)[price], lives
    return Session(rules, number, *drawn, world_tools)


def _regime_after(plan: Any, number: int, slot: int, alive: float, half: float, move: int) -> tuple[int, int]:
    after: tuple[int, int] = book.regime(plan, number, slot, move, alive, half)
    return after


def _follow(column: NDArray[np.int64], after: Callable[[int], tuple[int, int]]) -> None:
    """Fill a (Q,) column by what holds `after` so many moves, and for how many queries."""
    begin = move = 0
    while begin < len(column):
        column[begin:], lasts = after(move)
        begin, move = begin + lasts, move + 1


def _counted_profiles(rules: SessionRules, number: int, tools: int) -> tuple[NDArray[np.int64], NDArray[np.int64], Profiles]:
    """(I,) providers, (I,) indices of the reliabilities, and the profiles of drawn tools of version 1."""
    plan, specs = plan_of(rules.document), [SimpleNamespace() for _ in range(tools)]
    drawn = [book.tool(plan, number, slot, spec) for slot, spec in enumerate(specs)]
    reliability, provider, success, latency_s = (np.array(column) for column in zip(*drawn, strict=True))
    names = ("fee", "latency_s", "cold_start_s", "keep_alive_s", "rate_limit", "quota")
    columns = {name: np.array([getattr(spec, name) for spec in specs]) for name in names}
    spreads = np.asarray(SPREADS)[[spec.spread for spec in specs]]
    adverts = {"advertised_success": success, "advertised_latency_s": latency_s}
    return provider, reliability, Profiles(**columns, **adverts, latency_spread=spreads, reliability=plan.points[reliability])


def _providers_of(tools: tuple[Tool, ...], rules: SessionRules) -> NDArray[np.int64]:
    names = list(dict.fromkeys(tool.provider for tool in tools))
    return np.array([names.index(tool.provider) % rules.providers for tool in tools])


def draw_queries(
    rules: SessionRules, kinds: int, luck: Floats, past: Session | None = None, begun: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    """(Q,) kinds, facts and values of the queries that (4, Q) uniforms draw; those of the `past` that have `begun` stay."""
    capability, fact = (luck[0] * kinds).astype(np.int64), np.arange(rules.queries)
    value = VALUES[0] + np.floor(luck[1] * (VALUES[1] - VALUES[0] + 1))
    if past is not None:
        for drawn, known in ((capability, past.capability), (fact, past.fact), (value, past.value)):
            drawn[:begun] = known[:begun]
    for query in np.flatnonzero(luck[2] < rules.repeat).tolist():
        if query >= max(begun, 1):
            fact[query] = fact[int(luck[3, query] * query)]
            capability[query] = capability[fact[query]]
    return capability, fact, value


@lru_cache(maxsize=4)
def _worlds(document: str) -> Sequence[Scenario]:
    scenario = rules_of(document).scenario
    assert scenario is not None
    for name, needed in _NEEDED.items():
        if (got := getattr(scenario, name)) != needed:
            raise ConfigError("scenario", f"a session needs {name}: {needed!r}, and {scenario.name} has {got!r:.60}")
    return worlds_of(scenario) or (scenario,)


def _rivals(scenario: Scenario) -> dict[str, list[Tool]]:
    """The tools of a world that read, by what they can read."""
    rivals: dict[str, list[Tool]] = {}
    for tool in scenario.build().catalog:
        if tool.capability and tool.effect is None:
            rivals.setdefault(tool.capability, []).append(tool)
    return rivals


def offered(rules: SessionRules, number: int) -> tuple[tuple[Tool, ...], NDArray[np.int64]]:
    """The tools of a session over a scenario's world in the order of its slots, and (I,) their kinds from 0 on: at most
    `rules.tools` of those that can do at most `rules.capabilities` of what the world can read. The worlds of a folder take
    turns by the session's number, and one that reads nothing leaves its turn to the next. Raises ConfigError where a world's
    rules or prices do not fit a session, or no tool reads."""
    worlds = _worlds(rules.document)
    for step in range(len(worlds)):
        scenario = worlds[(number + step) % len(worlds)]
        if rivals := _rivals(scenario):
            break
    else:
        raise ConfigError("scenario", f"a session needs tools that read, and {scenario.name} has none of a known capability")
    dear = max((tool for rival in rivals.values() for tool in rival), key=lambda tool: tool.profile.fee)
    if dear.profile.fee > HIGHEST_FEE:
        wanted = f"a session needs prices up to {HIGHEST_FEE:g}, since its queries are worth 2 to 20"
        raise ConfigError("scenario", f"{wanted}; {dear.name} of {scenario.name} costs {dear.profile.fee:g}")
    random = rules.generator(number, "offers").random
    drawn = [list(rivals)[index] for index in np.argsort(random(len(rivals)))[: rules.capabilities]]
    orders = [[rivals[name][index] for index in np.argsort(random(len(rivals[name])))] for name in drawn]
    # in rounds, as in generated catalogues: where the slots do not suffice, every kind keeps some of its tools
    pairs = [(tool, kind) for lap in zip_longest(*orders) for kind, tool in enumerate(lap) if tool is not None]
    tools, kinds = zip(*pairs[: rules.tools], strict=True)
    return tools, np.array(kinds)


@lru_cache(maxsize=64)
def _edges(document: str) -> tuple[Floats, Floats]:
    """Reliabilities that tools may have, and the cumulative shares of the tools that have each."""
    points, shares = reliabilities(rules_of(document).failures)
    return points, np.cumsum(shares)


def regimes(
    rules: SessionRules, reliability: Floats, moves: Floats, luck: Floats, first: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """(Q, I) states: a tool keeps its state until it enters a new regime, which draws one by its (I,) reliability. (Q, I)
    uniforms decide whether (`moves`) and which (`luck`); `first` (I,) are the states to begin with, and None draws them."""
    alive, half = np.array([state_chances(share, rules.failures.slip) for share in reliability.tolist()]).T
    drawn = np.where(luck < alive, ALIVE, np.where(luck < alive + half, DEGRADED, DEAD))
    if first is not None:
        drawn[0] = first
    return _held(drawn, moves < rules.drift)


def prices(changes: NDArray[np.bool_], luck: Floats, first: Floats) -> Floats:
    """(Q, I) factors on prices: a tool keeps its `first` (I,) until it changes (Q, I) to one that (Q, I) uniforms choose."""
    drawn = np.asarray(FACTORS)[(luck * len(FACTORS)).astype(np.int64)]
    drawn[0] = first
    return _held(drawn, changes)


def _held(drawn: NDArray[Any], changes: NDArray[np.bool_]) -> NDArray[Any]:
    """(Q, I) what was drawn at the last change, or at the start."""
    indices = np.arange(drawn.size).reshape(drawn.shape)
    return drawn.take(np.maximum.accumulate(np.where(changes, indices, indices[0]), axis=0))


def draw_profiles(document: str, u: Floats) -> Profiles:
    """The profiles that (12, I) uniforms draw by the rules of a document."""
    failures, (points, edges) = rules_of(document).failures, _edges(document)
    reliability = points[np.minimum(np.searchsorted(edges, u[0], "right"), len(points) - 1)]
    normal = _QUANTILES[(u[[1, 3]] * QUANTILES).astype(np.int64)]
    advert = failures.advertised_floor + (1.0 - failures.advertised_floor) * reliability
    advert += failures.advertised_spread * normal[0]
    # dear tools are a little faster and no more reliable: what a price buys has to be found out
    fee = 1.0 + np.floor(u[2] * 10)
    median = np.exp(0.2 + 0.8 * normal[1]) * np.array([1.4 ** (0.5 - (units - 1.0) / 9.0) for units in fee.tolist()])
    cold = np.array([round(0.3 + 3.7 * luck**2, 3) for luck in u[7].tolist()])
    limit = (u[9] * 8).astype(np.int64), (u[9] * 30).astype(np.int64)
    return Profiles(
        fee=fee,
        latency_s=_rounded(median, 4),
        latency_spread=np.asarray(SPREADS)[(u[4] * len(SPREADS)).astype(np.int64)],
        cold_start_s=np.where(u[6] < 0.3, cold, 0.0),
        keep_alive_s=_rounded(20.0 + 100.0 * u[8], 1),
        rate_limit=np.where(u[10] < failures.rate_limited_share, 3 + limit[0], 0),
        quota=np.where(u[11] < failures.quota_share, 10 + limit[1], 0),
        reliability=reliability,
        advertised_success=_rounded(np.minimum(1.0, np.maximum(0.0, advert)), 3),
        advertised_latency_s=_rounded(median * (0.85 + 0.3 * u[5]), 3),
    )


def _profiles_of(tools: tuple[Tool, ...]) -> Profiles:
    """The profiles of a world's tools, with the nearest of the spreads that durations have in sessions."""
    profiles = [tool.profile for tool in tools]
    spreads = np.abs(np.array([[profile.latency_spread] for profile in profiles]) - SPREADS).argmin(axis=1)
    columns = {name: np.array([getattr(profile, name) for profile in profiles]) for name in Profiles._fields}
    medians = np.array([profile.latency_at(_MEDIUM) for profile in profiles])
    return Profiles(**columns | {"latency_s": medians, "latency_spread": np.asarray(SPREADS)[spreads]})


def _rounded(column: Floats, digits: int) -> Floats:
    # NumPy's own rounding scales by a power of ten, and is off by a bit at times
    return np.array([round(value, digits) for value in column.tolist()])


def _tool(slot: int, world_tool: Tool | None, fee: float, latency_s: float, *rest: Any) -> Tool:
    *figures, capability, provider = rest
    profile = replace(
        ToolProfile() if world_tool is None else world_tool.profile,
        fee=fee, latency_s=(latency_s,), **dict(zip(Profiles._fields[2:], figures, strict=True)),
        window_s=WINDOW_S, timeout_s=TIMEOUT_S, concurrency=0, slip=None, persistence=None,
    )  # fmt: skip
    name, kind = f"tool_{slot:02d}", f"kind {capability + 1}"
    if world_tool is None:
        return Tool(
            name, f"Answers questions of {kind}.", kind, f"provider {provider + 1}", name, profile=profile, capability=kind
        )
    # calls take no arguments here, and a tool's category is what a query asks for
    return Tool(
        world_tool.name, world_tool.description, kind, world_tool.provider, world_tool.title, profile=profile, capability=kind
    )


@lru_cache(maxsize=1)
def _factors() -> Floats:
    """(S, Q) quantiles of a call's duration over its median, ascending, by the spread."""
    return np.array([latency_factors(spread) for spread in SPREADS])


def call_durations(profiles: Profiles) -> Iterator[Floats]:
    """For each tool the quantiles of its calls' durations before the time-out, ascending, seconds."""
    spreads = np.searchsorted(SPREADS, profiles.latency_spread).tolist()
    # tool by tool: the array of all tools is so large that most of the time would go into getting memory
    for median, spread in zip(profiles.latency_s.tolist(), spreads, strict=True):
        yield _factors()[spread] * median


def call_times(profiles: Profiles) -> tuple[Floats, Floats]:
    """For each tool the chance that a call ends before the time-out, and its mean seconds; both (I,)."""
    in_time, mean = np.ones(len(profiles.fee)), np.empty(len(profiles.fee))
    for tool, drawn in enumerate(call_durations(profiles)):
        if drawn[-1] > TIMEOUT_S:
            in_time[tool] = np.searchsorted(drawn, TIMEOUT_S, "right") / QUANTILES
            np.minimum(drawn, TIMEOUT_S, out=drawn)
        mean[tool] = np.add.reduce(drawn) / QUANTILES
    return in_time, mean
