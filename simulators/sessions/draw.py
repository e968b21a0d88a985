"""Draw a session: its catalogue, its queries, and how its tools drift, from its rules and number alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..calls import NORMAL_QUANTILES, QUANTILES, latency_factors
from ..draws import stable_generator
from ..failures import ALIVE, DEAD, DEGRADED, state_chances
from ..oracle.prior import reliabilities
from ..tools import Tool, ToolProfile
from .rules import VALUES, SessionRules

Floats = NDArray[np.float64]
SPREADS = (0.3, 0.5, 0.7, 0.9)
"""Spreads of a call's duration around its tool's median; the widest has a tail that the time-out cuts."""
FACTORS = (0.5, 0.75, 1.0, 1.5, 2.0)
"""Factors that a change sets on a tool's price."""
TIMEOUT_S = 30.0
_QUANTILES = np.asarray(NORMAL_QUANTILES)


@dataclass(frozen=True, slots=True)
class Session:
    """A session as drawn: Q queries, I tools. What agents may not know is said so.

    Attributes:
        rules, number: What it was drawn from.
        capability: (Q,) the capability that each query needs.
        fact: (Q,) the fact that it asks for, by the query that asked for it first.
        value: (Q,) what it is worth.
        tools: The catalogue, one tool a slot; their reliabilities are hidden.
        offers: (I,) the capability of each tool.
        provider: (I,) its provider.
        states: (Q, I) the latent state of each tool during each query; hidden.
        factors: (Q, I) factor on each tool's price during each query; seen when the query has come.
        lives_s: (Q,) life of a fact that is found for each query, simulated seconds; hidden.
    """

    rules: SessionRules
    number: int
    capability: NDArray[np.int64]
    fact: NDArray[np.int64]
    value: Floats
    tools: tuple[Tool, ...]
    offers: NDArray[np.int64]
    provider: NDArray[np.int64]
    states: NDArray[np.int64]
    factors: Floats
    lives_s: Floats


def draw_session(rules: SessionRules, number: int) -> Session:
    """Draw a session.

    Args:
        rules: How.
        number: The session's; equal rules and numbers give equal sessions in every process. A rule changes what it is about and
            nothing else, so that sessions under other rules can be compared in pairs.
    """
    return _drawn(rules.document, number)


@lru_cache(maxsize=64)
def _drawn(document: str, number: int) -> Session:
    rules = SessionRules.model_validate_json(document)
    queries, tools = rules.queries, rules.tools
    uniform = stable_generator(number, "session").random
    capability = (uniform(queries) * rules.capabilities).astype(np.int64)
    value = VALUES[0] + np.floor(uniform(queries) * (VALUES[1] - VALUES[0] + 1))
    again, which, life = uniform(queries), uniform(queries), uniform(queries)
    fact = np.arange(queries)
    for query in range(1, queries):
        if again[query] < rules.repeat:
            fact[query] = fact[int(which[query] * query)]
            capability[query] = capability[fact[query]]
    offers = np.arange(tools) % rules.capabilities
    provider = (uniform(tools) * rules.providers).astype(np.int64)
    columns = uniform((12, tools))
    reliability = _reliabilities(rules, columns[0])
    catalogue = tuple(
        _tool(rules, slot, int(offers[slot]), int(provider[slot]), float(reliability[slot]), columns[:, slot])
        for slot in range(tools)
    )
    states = regimes(rules, reliability, uniform((queries, tools)), uniform((queries, tools)))
    factors = np.ones((queries, tools))
    changes, to = uniform((queries, tools)) < rules.price_drift, uniform((queries, tools))
    for query in range(1, queries):
        fresh = np.asarray(FACTORS)[(to[query] * len(FACTORS)).astype(np.int64)]
        factors[query] = np.where(changes[query], fresh, factors[query - 1])
    lives = -rules.ttl_s * np.log1p(-life)
    return Session(rules, number, capability, fact, value, catalogue, offers, provider, states, factors, lives)


def _reliabilities(rules: SessionRules, luck: Floats) -> Floats:
    points, shares = reliabilities(rules.failures)
    return points[np.minimum(np.searchsorted(np.cumsum(shares), luck, "right"), len(points) - 1)]


def regimes(
    rules: SessionRules, reliability: Floats, moves: Floats, luck: Floats, first: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """(Q, I) states: a tool keeps its state until it enters a new regime, which draws one by its reliability.

    Args:
        rules: For the drift.
        reliability: (I,).
        moves, luck: (Q, I) uniforms that decide whether a tool enters a regime, and which.
        first: (I,) the states to begin with; None draws them.
    """
    chances = np.array([state_chances(float(share), rules.failures.slip) for share in reliability])
    alive, degraded = chances[:, 0], chances[:, 0] + chances[:, 1]
    drawn = np.where(luck < alive, ALIVE, np.where(luck < degraded, DEGRADED, DEAD))
    states: NDArray[np.int64] = drawn.copy()
    if first is not None:
        states[0] = first
    for query in range(1, len(states)):
        states[query] = np.where(moves[query] < rules.drift, drawn[query], states[query - 1])
    return states


def _tool(rules: SessionRules, slot: int, capability: int, provider: int, reliability: float, u: Floats) -> Tool:
    failures = rules.failures
    advert = failures.advertised_floor + (1.0 - failures.advertised_floor) * reliability
    advert += failures.advertised_spread * _normal(u[1])
    # dear tools are a little faster and no more reliable: what a price buys has to be found out
    fee = float(1 + int(u[2] * 10))
    median = float(np.exp(0.2 + 0.8 * _normal(u[3]))) * 1.4 ** (0.5 - (fee - 1.0) / 9.0)
    cold = u[6] < 0.3
    profile = ToolProfile(
        fee=fee,
        latency_s=(round(median, 4),),
        latency_spread=SPREADS[int(u[4] * len(SPREADS))],
        cold_start_s=round(0.3 + 3.7 * float(u[7]) ** 2, 3) if cold else 0.0,
        keep_alive_s=round(20.0 + 100.0 * float(u[8]), 1),
        rate_limit=3 + int(u[9] * 8) if u[10] < failures.rate_limited_share else 0,
        window_s=60.0,
        quota=10 + int(u[9] * 30) if u[11] < failures.quota_share else 0,
        timeout_s=TIMEOUT_S,
        reliability=reliability,
        advertised_success=round(min(1.0, max(0.0, advert)), 3),
        advertised_latency_s=round(median * (0.85 + 0.3 * float(u[5])), 3),
    )
    name = f"tool_{slot:02d}"
    kind = f"kind {capability + 1}"
    return Tool(name, f"Answers questions of {kind}.", kind, f"provider {provider + 1}", name, profile=profile, capability=kind)


def _normal(luck: float) -> float:
    return float(_QUANTILES[int(luck * QUANTILES)])


def durations(tool: Tool) -> Floats:
    """The quantiles of a tool's durations before the time-out, seconds, ascending."""
    return tool.profile.latency_s[0] * np.asarray(latency_factors(tool.profile.latency_spread))
