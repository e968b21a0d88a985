"""The scalars of a world under a budget, as rules read them."""

from math import inf
from typing import Any, NamedTuple

from costgym.simulators.ledger import Budget, Enforcement


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
    limits = (budget.price, budget.seconds, budget.tokens, budget.calls)
    price, seconds, tokens, calls = (inf if limit is None else float(limit) for limit in limits)
    bursts = world.failures.bursts
    return Rules(
        price_limit=price,
        seconds_limit=seconds,
        tokens_limit=tokens,
        calls_limit=calls,
        # seconds cannot be refused in advance, so a limit on them ends the episode under every enforcement but `record`
        deadline_s=inf if enforcement == "record" else seconds,
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
