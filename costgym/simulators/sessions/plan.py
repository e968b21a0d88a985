"""The numbers by which sessions of version 1 are drawn, as `rules.session_draws` reads them, in Python and in compiled code."""

from functools import lru_cache
from math import exp, inf
from types import SimpleNamespace

import numpy as np
from numpy.typing import NDArray

from costgym.simulators.calls import CONNECTION_REFUSED_S, NORMAL_QUANTILES, QUANTILES, latency_factors
from costgym.simulators.draws import log, stable_integer
from costgym.simulators.failures import FailureModel, state_chances
from costgym.simulators.sessions.rules import rules_of
from costgym.simulators.world.belief import reliabilities

SPREADS = (0.3, 0.5, 0.7, 0.9)  # of a call's duration around its tool's median; the widest has a tail that the time-out cuts
FACTORS = (0.5, 0.75, 1.0, 1.5, 2.0)  # that a change sets on a tool's price
TIMEOUT_S, WINDOW_S = 30.0, 60.0
_FLOATS = (
    "drift", "price_drift", "again", "ttl_s", "share", "up", "floor", "limited_share", "quota_share", "timeouts", "refusals",
    "refused_s", "timeout_s",
)  # fmt: skip


@lru_cache(maxsize=16)
def plan_of(document: str) -> SimpleNamespace:
    """The plan of a document of rules.

    `key` stands in the draws in the place of an episode's seed. `again` is the chance that a query asks for an earlier one's
    fact, `drift` and `price_drift` are the logarithms of the chances that a tool and its price do not move between two queries;
    `share` is that of the default limits, `up` that of the time in which a provider is up; `timeouts` and `refusals` are shares
    of the failures, `refused_s` and `timeout_s` how long such calls last. (G,) `points` are the reliabilities that tools may
    have and `edges` the cumulative shares of the tools that have each; `alive` and `half` are the edges among uniforms of the
    first two states, by reliability; (3,) `works` is the chance that a call works, by state. (4096,) `medians` and `claims` are
    quantiles of a tool's median seconds and of what its advert adds to the truth, (10,) `haste` is a factor on its seconds, by
    its fee. (S, 4096) `factors` are the quantiles of a call's duration over its median, by spread, and (S, 4097) `sums` the
    sums of the first of them.
    """
    rules = rules_of(document)
    model, (points, shares) = rules.failures, reliabilities(rules.failures)
    states = np.array([state_chances(point, model.slip) for point in points.tolist()])
    factors = np.array([latency_factors(spread) for spread in SPREADS])
    timeouts, refusals = kind_shares(model)
    tables = {
        "points": points, "edges": np.cumsum(shares), "alive": states[:, 0], "half": states.sum(axis=1),
        "works": np.array([1.0 - model.slip, 0.5, model.slip]),
        "medians": np.array([exp(0.2 + 0.8 * quantile) for quantile in NORMAL_QUANTILES]),
        "claims": np.array([model.advertised_spread * quantile for quantile in NORMAL_QUANTILES]),
        "haste": np.array([1.4 ** (0.5 - fee / 9.0) for fee in range(10)]),
        "factors": factors, "sums": np.concatenate([np.zeros((len(SPREADS), 1)), factors.cumsum(axis=1)], axis=1),
    }  # fmt: skip
    whole = {
        "queries": rules.queries, "kinds": rules.capabilities, "providers": rules.providers, "prices": len(FACTORS),
        "spreads": len(SPREADS), "quantiles": QUANTILES,
    }  # fmt: skip
    up = rules.outage_every_s / (rules.outage_every_s + rules.outage_lasts_s)
    values = (
        _stays(rules.drift), _stays(rules.price_drift), rules.repeat, rules.ttl_s, rules.budget_share, up,
        model.advertised_floor, model.rate_limited_share, model.quota_share, timeouts, refusals, CONNECTION_REFUSED_S,
        TIMEOUT_S,
    )  # fmt: skip
    key = np.uint64(stable_integer(rules.world_seed, "sessions"))
    return SimpleNamespace(key=key, **whole, **dict(zip(_FLOATS, map(float, values), strict=True)), **tables)


@lru_cache(maxsize=16)
def plan_record(document: str) -> NDArray[np.void]:
    """The plan as a record, so that kernels take one address for all of it."""
    fields = vars(plan_of(document))
    arrays = {name: np.asarray(value) for name, value in fields.items()}
    kind = np.dtype([(name, array.dtype, array.shape) for name, array in arrays.items()], align=True)
    plan = np.zeros(1, np.dtype((np.record, kind)))
    for name, array in arrays.items():
        plan[name] = array
    return plan


def _stays(chance: float) -> float:
    return -inf if chance >= 1.0 else log(1.0 - chance) if chance > 0.0 else 0.0


def kind_shares(model: FailureModel) -> tuple[float, float]:
    """Shares of the failures that time out and that are refused connections."""
    total = sum(model.kinds.values())
    return model.kinds.get("timeout", 0.0) / total, model.kinds.get("connection_error", 0.0) / total
