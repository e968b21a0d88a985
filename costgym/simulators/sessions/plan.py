"""The numbers by which sessions of version 1 are drawn, as `rules.session_draws` reads them, in Python and in compiled code."""

from functools import lru_cache
from math import exp, inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from costgym.simulators.belief import reliabilities
from costgym.simulators.calls import CONNECTION_REFUSED_S, NORMAL_QUANTILES, latency_factors
from costgym.simulators.draws import log, stable_integer
from costgym.simulators.failures import FailureModel, state_chances
from costgym.simulators.sessions.rules import rules_of

Floats = NDArray[np.float64]
SPREADS = (0.3, 0.5, 0.7, 0.9)  # of a call's duration around its tool's median; the widest has a tail that the time-out cuts
FACTORS = (0.5, 0.75, 1.0, 1.5, 2.0)  # that a change sets on a tool's price
TIMEOUT_S, WINDOW_S = 30.0, 60.0


class SessionPlan(NamedTuple):
    """The rules of sessions as numbers and tables."""

    key: np.uint64  # of the draws, in the place of an episode's seed
    queries: int
    kinds: int
    providers: int
    # prices, spreads: the number of `FACTORS` and of `SPREADS`
    prices: int
    spreads: int
    # drift, price_drift: the logarithm of the chance that a tool, or its price, does not move between two queries
    drift: float
    price_drift: float
    repeat: float
    ttl_s: float
    share: float  # of the default limits
    up: float  # share of the time in which a provider is up
    # floor, limited_share, quota_share: of `FailureModel`, the first of adverts
    floor: float
    limited_share: float
    quota_share: float
    # timeouts, refusals: shares of the failures that time out and that are refused connections, and how long the latter last
    timeouts: float
    refusals: float
    refused_s: float
    timeout_s: float
    # points, edges: (G,) reliabilities that tools may have, and the cumulative shares of the tools that have each
    points: Floats
    edges: Floats
    # alive, half: (G,) edges among uniforms of the first two states, by reliability
    alive: Floats
    half: Floats
    works: Floats  # (3,) chance that a call works, by state
    # medians, claims: (4096,) quantiles of a tool's median seconds, and of what its advert adds to the truth
    medians: Floats
    claims: Floats
    haste: Floats  # (10,) factor on a tool's seconds, by its fee
    # factors, sums: (S, 4096) quantiles of a call's duration over its median, and (S, 4097) sums of the first of them
    factors: Floats
    sums: Floats


@lru_cache(maxsize=16)
def plan_of(document: str) -> SessionPlan:
    """The plan of a document of rules."""
    rules = rules_of(document)
    model, (points, shares) = rules.failures, reliabilities(rules.failures)
    states = np.array([state_chances(point, model.slip) for point in points.tolist()])
    factors = np.array([latency_factors(spread) for spread in SPREADS])
    timeouts, refusals = kind_shares(model)
    return SessionPlan(
        key=np.uint64(stable_integer(rules.world_seed, "sessions")), queries=rules.queries, kinds=rules.capabilities, providers=rules.providers, prices=len(FACTORS), spreads=len(SPREADS),
        drift=_stays(rules.drift), price_drift=_stays(rules.price_drift), repeat=float(rules.repeat), ttl_s=float(rules.ttl_s),
        share=float(rules.budget_share), up=rules.outage_every_s / (rules.outage_every_s + rules.outage_lasts_s),
        floor=float(model.advertised_floor), limited_share=float(model.rate_limited_share), quota_share=float(model.quota_share),
        timeouts=timeouts, refusals=refusals, refused_s=CONNECTION_REFUSED_S, timeout_s=TIMEOUT_S,
        points=points, edges=np.cumsum(shares), alive=states[:, 0].copy(), half=states.sum(axis=1),
        works=np.array([1.0 - model.slip, 0.5, model.slip]),
        medians=np.array([exp(0.2 + 0.8 * quantile) for quantile in NORMAL_QUANTILES]),
        claims=np.array([model.advertised_spread * quantile for quantile in NORMAL_QUANTILES]),
        haste=np.array([1.4 ** (0.5 - fee / 9.0) for fee in range(10)]),
        factors=factors, sums=np.concatenate([np.zeros((len(SPREADS), 1)), factors.cumsum(axis=1)], axis=1),
    )  # fmt: skip


def _stays(chance: float) -> float:
    return -inf if chance >= 1.0 else log(1.0 - chance) if chance > 0.0 else 0.0


def kind_shares(model: FailureModel) -> tuple[float, float]:
    """Shares of the failures that time out and that are refused connections."""
    total = sum(model.kinds.values())
    return model.kinds.get("timeout", 0.0) / total, model.kinds.get("connection_error", 0.0) / total
