"""Levels of `MarketplaceSession-v1`: how long, how wide, how unsteady and how poor a session is."""

from typing import Any

from costgym.simulators.sessions.rules import FAILURES

LEVELS: dict[str, dict[str, Any]] = {
    "easy": {
        "queries": 30, "tools": 8, "capabilities": 2, "providers": 3, "drift": 0.0, "price_drift": 0.0, "repeat": 0.2,
        "ttl_s": 600.0, "outage_every_s": 2_000.0, "outage_lasts_s": 20.0, "budget_share": 0.5,
    },
    "medium": {
        "queries": 100, "tools": 24, "capabilities": 4, "providers": 6, "drift": 0.003, "price_drift": 0.01, "repeat": 0.3,
        "ttl_s": 300.0, "outage_every_s": 400.0, "outage_lasts_s": 20.0, "budget_share": 0.4,
    },
    "hard": {
        "queries": 300, "tools": 40, "capabilities": 5, "providers": 8, "drift": 0.01, "price_drift": 0.02, "repeat": 0.3,
        "ttl_s": 300.0, "outage_every_s": 300.0, "outage_lasts_s": 40.0, "budget_share": 0.3,
    },
    "extreme": {
        "queries": 1_000, "tools": 63, "capabilities": 6, "providers": 12, "drift": 0.02, "price_drift": 0.04, "repeat": 0.4,
        "ttl_s": 300.0, "outage_every_s": 200.0, "outage_lasts_s": 60.0, "budget_share": 0.25,
    },
}  # fmt: skip
"""Rules of each level."""


def rules_at(level: str, shifted: bool) -> dict[str, Any]:
    """The rules of a level; `shifted`: with other drift, adverts and outages than those that agents learn from."""
    rules = dict(LEVELS[level])
    if shifted:
        rules["drift"], rules["price_drift"] = max(0.01, 4.0 * rules["drift"]), max(0.01, 2.0 * rules["price_drift"])
        rules["outage_every_s"] = rules["outage_every_s"] / 3.0
        rules["failures"] = FAILURES.model_copy(update={"advertised_spread": 0.35, "advertised_floor": 0.7})
    return rules
