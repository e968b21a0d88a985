"""The scalars of a world under a budget, as rules read them."""

from math import inf
from typing import Any, NamedTuple

from costgym.simulators.ledger import RESOURCES, Budget, Enforcement
from costgym.simulators.rules.gateway import passed_limit


class Limits(NamedTuple):
    """The limits of a budget; infinite where there is none."""

    price_limit: float
    seconds_limit: float
    tokens_limit: float
    calls_limit: float


def limits_of(budget: Budget) -> Limits:
    """The limits of a budget as rules read them."""
    return Limits(*(inf if (limit := getattr(budget, name)) is None else float(limit) for name in RESOURCES))


def exceeded(budget: Budget, price: float, seconds: float, tokens: float, calls: float) -> str | None:
    """The first resource of which more was spent than its limit, or None."""
    passed = passed_limit(limits_of(budget), price, seconds, tokens, calls)
    return RESOURCES[passed - 1] if passed else None


class Rules(NamedTuple):
    """A world's scalars. A limit that is not set is infinite; `gpu_capacity_mb` is -1 for any amount, and so is `slots`.
    `track_bills` says whether prices depend on when calls start and are loaded: by duration, or with cold starts."""

    price_limit: float
    seconds_limit: float
    tokens_limit: float
    calls_limit: float
    deadline_s: float
    refuse: bool
    record: bool
    track_bills: bool
    bill_failures: bool
    bill_cold_start: bool
    gateway_s: float
    slots: int
    gpu_capacity_mb: float
    sticky: float
    burst_every_s: float
    burst_lasts_s: float
    burst_at_first: float
    writes: bool


def make_rules(world: Any, budget: Budget, enforcement: Enforcement, track_bills: bool = True) -> Rules:
    """The scalars of a world under a budget."""
    limits = limits_of(budget)
    bursts = world.failures.bursts
    return Rules(
        **limits._asdict(),
        # seconds cannot be refused in advance, so a limit on them ends the episode under every enforcement but `record`
        deadline_s=inf if enforcement == "record" else limits.seconds_limit,
        refuse=enforcement == "refuse",
        record=enforcement == "record",
        track_bills=track_bills,
        bill_failures=world.bill_failures,
        bill_cold_start=world.bill_cold_start,
        gateway_s=float(world.gateway_s),
        slots=-1 if world.slots is None else world.slots,
        gpu_capacity_mb=-1.0 if world.gpu_capacity_mb is None else float(world.gpu_capacity_mb),
        sticky=float(world.failures.sticky),
        burst_every_s=0.0 if bursts is None else float(bursts.every_s),
        burst_lasts_s=0.0 if bursts is None else float(bursts.lasts_s),
        burst_at_first=0.0 if bursts is None else bursts.at_first,
        writes=world.writes,
    )
