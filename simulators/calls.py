"""The plain data of a world in time: a call, a candidate, a notice, what a model used."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import exp
from statistics import NormalDist
from typing import Any, Literal, NamedTuple

from .status import Status

Enforcement = Literal["refuse", "terminate", "record"]
QUANTILES = 4096
CONNECTION_REFUSED_S = 0.05
"""A refused connection is known at once."""


NORMAL_QUANTILES = tuple(NormalDist().inv_cdf((i + 0.5) / QUANTILES) for i in range(QUANTILES))
"""Quantiles of the standard normal at the midpoints of `QUANTILES` equal steps, ascending."""


@lru_cache(maxsize=4096)
def latency_factors(spread: float) -> array[float]:
    """Quantiles of a lognormal with median 1, at the steps of `NORMAL_QUANTILES`; one array for all tools of one spread."""
    return array("d", [exp(spread * quantile) for quantile in NORMAL_QUANTILES])


class Usage(NamedTuple):
    """Tokens of one model call; `cached_tokens` are among the input tokens."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class WorldEvent:
    """A visible event in the world.

    Attributes:
        at_s: when, seconds.
        kind: price_change, ban, unban or preference_change.
        slots: the candidate slots concerned.
        factor: of a price change.
        need: of a preference change.
    """

    at_s: float
    kind: str
    slots: tuple[int, ...] = ()
    factor: float = 1.0
    need: int = -1


@dataclass(frozen=True, slots=True)
class Candidate:
    """A candidate of a task with everything a call needs, looked up once."""

    index: int
    number: int
    name: str
    need: int
    fee: float
    quote: float
    rate_per_s: float
    latency_s: float
    spread: float
    factors: array[float]
    timeout_s: float
    cold_start_s: float
    keep_alive_s: float
    concurrency: int
    rate_limit: int
    window_s: float
    quota: int
    gpu_mb: float
    reliability: float
    advertised_success: float
    advertised_latency_s: float
    popularity: float


@dataclass(slots=True)
class Call:
    """One call, from its submission to its end. Times are in seconds; NaN-free: -1.0 means not yet."""

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
    version: int = 0
    answer: str | None = None
    reason: str = ""
    factor: float = 1.0
