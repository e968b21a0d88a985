"""The data of calls: a candidate, a call and an event."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import exp
from statistics import NormalDist
from typing import Any

from costgym.simulators.failures import state_chances
from costgym.simulators.pricing.usage import Prompt, Segment, Usage
from costgym.simulators.rules.calls import CONNECTION_REFUSED_S, QUANTILES
from costgym.simulators.status import Status
from costgym.simulators.tools import READ, Effect, ToolProfile

__all__ = [
    "CONNECTION_REFUSED_S", "QUANTILES", "Call", "Candidate", "Prompt", "Segment", "Usage", "WorldEvent", "latency_factors",
]  # fmt: skip

NORMAL_QUANTILES = tuple(NormalDist().inv_cdf((i + 0.5) / QUANTILES) for i in range(QUANTILES))
"""Quantiles of the standard normal at the midpoints of `QUANTILES` equal steps, ascending."""


@lru_cache(maxsize=512)  # 32 KiB each
def latency_factors(spread: float, quantiles: tuple[float, ...] = ()) -> array[float]:
    """Quantiles of a duration over its median, at the steps of `NORMAL_QUANTILES`: of a lognormal, or of a table in its place,
    see `ToolProfile.latency_quantiles`. Tools with equal arguments share the array."""
    if not quantiles:
        return array("d", [exp(spread * quantile) for quantile in NORMAL_QUANTILES])
    positions = [(i + 0.5) / QUANTILES * (len(quantiles) - 1) for i in range(QUANTILES)]
    steps = [(quantiles[int(position)], quantiles[int(position) + 1], position - int(position)) for position in positions]
    return array("d", [low + (high - low) * share for low, high, share in steps])


@dataclass(frozen=True, slots=True)
class WorldEvent:
    """A visible event in the world."""

    at_s: float  #: simulated time of the event, seconds
    kind: str  #: price_change, ban, unban or preference_change
    slots: tuple[int, ...] = ()  #: slots of the candidates concerned
    factor: float = 1.0  #: factor on their prices, for a price change
    need: int = -1  #: index of the need that changes, for a preference change


OF_PROFILE = ("timeout_s", "cold_start_s", "keep_alive_s", "window_s", "rate_limit", "concurrency", "quota")
"""Fields of a candidate that its profile sets."""


def _derived() -> Any:
    return field(init=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A tool on offer in a task: its profile, and what follows from the task and the world."""

    index: int  #: its slot in the task
    number: int  #: its number in the catalog
    name: str
    need: int  #: index of the first need that it serves, or -1
    needs: tuple[int, ...]  #: indices of all needs that it serves
    profile: ToolProfile  #: its limits, times and what it advertises
    fee: float  #: flat part of its price, in the scenario's currency
    quote: float  #: what the catalog says a call costs
    rate_per_s: float  #: price of a second of running, where duration is billed
    latency_s: float  #: its median duration at the task's size level, seconds
    factors: array[float]  #: quantiles of the duration over the median
    gpu_mb: float  #: GPU memory that a call takes, MB
    #: slip, persistence: the tool's own, or the world's
    slip: float
    persistence: float
    effect: Effect | None = None  #: what its calls do to the world; None for a tool that reads
    # of the profile, where rules look for them
    timeout_s: float = _derived()
    cold_start_s: float = _derived()
    keep_alive_s: float = _derived()
    window_s: float = _derived()
    rate_limit: int = _derived()
    concurrency: int = _derived()
    quota: int = _derived()
    # alive_edge, degraded_edge: what divides the uniform that picks the tool's hidden state
    alive_edge: float = _derived()
    degraded_edge: float = _derived()

    def __post_init__(self) -> None:
        # line by line: tasks that are met for the first time make many candidates
        profile, write = self.profile, object.__setattr__
        write(self, "timeout_s", profile.timeout_s)
        write(self, "cold_start_s", profile.cold_start_s)
        write(self, "keep_alive_s", profile.keep_alive_s)
        write(self, "window_s", profile.window_s)
        write(self, "rate_limit", profile.rate_limit)
        write(self, "concurrency", profile.concurrency)
        write(self, "quota", profile.quota)
        # edges instead of chances: one uniform picks the state by two comparisons
        alive, degraded = state_chances(profile.reliability, self.slip)
        write(self, "alive_edge", alive)
        write(self, "degraded_edge", alive + degraded)

    @property
    def role(self) -> int:
        """One of `READ`, `WRITE`, `CHECK` and `UNDO`."""
        return READ if self.effect is None else self.effect.role


@dataclass(slots=True)
class Call:
    """A call, from its submission to its end. Times are simulated seconds; -1.0 stands for a time that has not come.

    `aim` is the need that it was made for, where the tool serves one; `need` the need whose fact it brought; `effect` what it
    changes, or tells of, when it ends: a need's index, another entity in words, or -1.
    """

    slot: int
    k: int
    submitted_s: float
    arguments: Mapping[str, Any] | None = None
    tool: str = ""
    status: Status = Status.OK
    started_s: float = -1.0
    ready_s: float = -1.0
    finished_s: float = -1.0
    cold: bool = False
    price: float = 0.0
    quote: float = 0.0
    retry_after_s: float = 0.0
    need: int = -1
    aim: int = -1
    version: int = 0
    answer: str | None = None
    reason: str = ""
    factor: float = 1.0
    effect: int | str = -1
    ends_s: float = -1.0  #: when it will end, once it has started
    timer: Any = field(default=None, repr=False, compare=False)  #: SimPy's event of its end, while it runs
