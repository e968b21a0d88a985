"""The failure model of tools, on two levels as in real marketplaces.

A tool's *reliability* is a property of the world, drawn once per scenario, so past experience pays. In each *episode* the
tool has a latent state (alive, degraded, dead) drawn from its reliability, and its calls follow that state: a call after a
failure fails far more often than one after a success. Independent failures would be wrong: measured on ToolBench's example
trees, P(fail | last failed) = 0.90 and P(fail | last ok) = 0.13, and of 53 APIs 30 never answered while 19 always did.

Sources: ToolBench ``data_example`` trees (300 calls), RapidAPI's own telemetry for 3,157 tools, StableToolBench Fig. 3.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf

import numpy as np
from pydantic import Field, field_validator, model_validator

from costgym.simulators.bounds import StrictModel, is_none, out_of_bounds, within
from costgym.simulators.draws import CONTENT, DURATION, Draws, brief_generator
from costgym.simulators.rules.failures import outage_after
from costgym.simulators.status import SILENT, Status

KINDS: dict[str, float] = {
    "server_error": 0.27,
    "not_found": 0.25,
    "unauthorized": 0.12,
    "connection_error": 0.10,
    "timeout": 0.10,
    "empty": 0.10,
    "irrelevant": 0.06,
}
"""Shares of the tools' own failures. Agents' errors (bad arguments, invented names) and rate limits follow from the world's
rules and are not listed. Source: counts over the samples named above, renormalised."""

SILENT_KINDS = tuple(status.label for status in SILENT)
"""Ways to fail inside an answer. No preset has them; a scenario gives them a weight among its `kinds`."""

_STATUS = {name: Status[name.upper()] for name in (*KINDS, *SILENT_KINDS)}
LATENCY_MU, LATENCY_SIGMA = 6.717, 1.530
"""The average latencies of tools, in milliseconds, are LogNormal(mu, sigma) (RapidAPI telemetry, n = 3,157)."""
TAIL_FACTOR = 3.0
"""The slowest 5 % of the latencies are stretched by up to this factor, because the measured tail is fatter than the
lognormal's: 2.4 % of the tools lie above 30 s, where the lognormal has 0.9 %."""


class Bursts(StrictModel):
    """Outages that tools share, during which every call that starts fails."""

    # mean time from the end of one outage to the start of the next, simulated seconds
    every_s: float = within("failures.bursts.every_s")
    lasts_s: float = within("failures.bursts.lasts_s")  # mean length of an outage, simulated seconds
    # names of the tools that the outages concern; None for all
    tools: tuple[str, ...] | None = Field(default=None, exclude_if=is_none)
    # an outage may be under way when an episode begins, as at any time of a long one; None for no
    under_way: bool | None = Field(default=None, exclude_if=is_none)

    @property
    def at_first(self) -> float:
        """Chance that an outage is under way when an episode begins."""
        return self.lasts_s / (self.every_s + self.lasts_s) if self.under_way else 0.0

    def concerns(self, tool: str) -> bool:
        """Return whether a tool shares the outages."""
        return self.tools is None or tool in self.tools


class FailureModel(StrictModel):
    """The rates and kinds of tool failures.

    Attributes:
        usable: Mean reliability of the tools, 0 to 1.
        dead_share, perfect_share: Share of tools with reliability exactly 0, and exactly 1, in the telemetry's mixture.
        beta: Parameters of the Beta distribution of all other reliabilities.
        slip: Chance that an alive tool fails, and that a dead one answers.
        persistence: How far a call's chance is pulled towards the outcome of the call before it, 0 to 1.
        sticky: Chance that a tool fails again in its usual way.
        kinds: Weights of the ways to fail, of `KINDS` and `SILENT_KINDS`.
        advertised_spread: Noise of the advertised success around the truth; at the default the two correlate by about 0.89.
        advertised_floor: Success that a dead tool still advertises; the catalog overstates.
        bursts: Global outages, or None.
        rate_limited_share, quota_share: Share of tools that have a rate limit, and that have a quota.
    """

    usable: float = within("failures.usable", default=0.444)
    dead_share: float = within("failures.dead_share", default=0.129)
    perfect_share: float = within("failures.perfect_share", default=0.469)
    beta: tuple[float, float] = (1.38, 0.38)
    slip: float = within("failures.slip", default=0.08)
    persistence: float = within("failures.persistence", default=0.3)
    sticky: float = within("failures.sticky", default=0.9)
    kinds: Mapping[str, float] = Field(default_factory=lambda: dict(KINDS))
    advertised_spread: float = within("failures.advertised_spread", default=0.1)
    advertised_floor: float = within("failures.advertised_floor", default=0.6)
    bursts: Bursts | None = None
    rate_limited_share: float = within("failures.rate_limited_share", default=0.15)
    quota_share: float = within("failures.quota_share", default=0.05)

    @field_validator("beta")
    @classmethod
    def _parameters(cls, beta: tuple[float, float]) -> tuple[float, float]:
        for value in beta:
            if problem := out_of_bounds("failures.beta", value):
                raise ValueError(problem)
        return beta

    @field_validator("kinds")
    @classmethod
    def _weights(cls, kinds: Mapping[str, float]) -> Mapping[str, float]:
        for name, weight in kinds.items():
            if name not in _STATUS:
                raise ValueError(f"unknown way to fail {name!r:.60}; known: {', '.join(_STATUS)}")
            if problem := out_of_bounds("failures.kinds", weight):
                raise ValueError(f"{name}: {problem}")
        if not any(weight > 0 for weight in kinds.values()):
            raise ValueError("expected a positive weight for at least one way to fail, got none")
        return kinds

    @model_validator(mode="after")
    def _shares(self) -> "FailureModel":
        if self.dead_share + self.perfect_share > 1 + 1e-9:
            total = self.dead_share + self.perfect_share
            raise ValueError(f"dead_share and perfect_share: expected a sum of at most 1, got {total:g}")
        return self

    @property
    def silent(self) -> bool:
        """Return whether some failures look like answers and spoil what is in them."""
        return any(self.kinds.get(name, 0.0) > 0 for name in SILENT_KINDS)


PRESETS: dict[str, FailureModel] = {
    "reliable": FailureModel(
        usable=1.0,
        dead_share=0.0,
        perfect_share=1.0,
        slip=0.0,
        persistence=0.0,
        rate_limited_share=0.0,
        quota_share=0.0,
        advertised_spread=0.0,
        advertised_floor=1.0,
    ),
    "rapidapi-2023": FailureModel(usable=0.615),
    "rapidapi-2024": FailureModel(usable=0.444),
    "storm": FailureModel(usable=0.38, bursts=Bursts(every_s=45.0, lasts_s=10.0), rate_limited_share=0.4, quota_share=0.1),
}
"""Failure models by name. rapidapi-2023: 61.5 % usable, as in ToolPlanner's evaluation messages. rapidapi-2024: 44.4 %, as in
StableToolBench's scan of all APIs. storm: 38 %, the lowest share measured, with outages. reliable: no failures of the tools."""


@dataclass(frozen=True, slots=True)
class Advert:
    """A tool's reliability, and what its entry in the catalog claims."""

    reliability: float  # the true reliability, 0 to 1
    success: float  # the advertised share of successful calls, 0 to 1
    popularity: float  # the advertised popularity, 0 to 10


def draw_reliability(model: FailureModel, seed: int, name: str, advertised: float | None = None) -> Advert:
    """A tool's reliability and what it advertises, by seed and name; `advertised` is the success share of real telemetry."""
    # all four are drawn whichever are used, so that telemetry for one figure leaves the others as they were
    generator = brief_generator(seed, "reliability", name)
    mixture, body, noise, fame = generator.random(), generator.beta(*model.beta), generator.normal(), generator.normal()
    mean = model.perfect_share + (1 - model.dead_share - model.perfect_share) * model.beta[0] / sum(model.beta)
    if advertised is not None:
        # telemetry overstates what callers meet (78 % against 44 %): a tool survives drift with the ratio of the two
        survives = generator.random() < (min(1.0, model.usable / mean) if mean else 0.0)
        reliability = advertised if survives else advertised * model.slip
        success = advertised
    else:
        # keep the mixture's shape, move weight between its dead and its perfect end until the mean is `usable`
        shift = model.usable - mean
        interior = (1 - model.dead_share - model.perfect_share) * (1 - abs(shift))
        perfect = min(1 - interior, max(0.0, model.usable - interior * model.beta[0] / sum(model.beta)))
        reliability = 1.0 if mixture < perfect else float(body) if mixture < perfect + interior else 0.0
        success = model.advertised_floor + (1 - model.advertised_floor) * reliability + model.advertised_spread * float(noise)
    success = min(1.0, max(0.0, success))
    popularity = min(9.9, max(0.0, 9.9 * (0.1 + 0.85 * success) + 0.3 * float(fame)))
    return Advert(float(reliability), float(success), round(popularity, 1))


def draw_latency_s(seed: int, name: str) -> float:
    """Draw a tool's median latency, seconds, by its name alone: a lognormal with the fatter measured tail."""
    generator = brief_generator(seed, "latency", name)
    uniform, normal = generator.random(), generator.normal()
    latency = float(np.exp(LATENCY_MU + LATENCY_SIGMA * normal)) / 1000.0
    threshold = float(np.exp(LATENCY_MU + LATENCY_SIGMA * 1.645)) / 1000.0  # the slowest 5 % of a normal
    return latency * TAIL_FACTOR**uniform if latency > threshold else latency


@lru_cache(maxsize=65536)
def state_chances(reliability: float, slip: float) -> tuple[float, float]:
    """P(alive) and P(degraded) of a tool in an episode; otherwise it is dead. Half-reliable tools are degraded most often."""
    degraded = 0.4 * reliability * (1 - reliability)
    return reliability - degraded / 2, degraded


def cumulative_kinds(kinds: Mapping[str, float]) -> tuple[tuple[float, Status], ...]:
    """Cumulative weights of the ways to fail, ascending to 1, in the order of `KINDS` and `SILENT_KINDS`."""
    total = sum(kinds.values())
    edges, running = [], 0.0
    for name in _STATUS:
        if kinds.get(name, 0.0) > 0:
            running += kinds[name] / total
            edges.append((running, _STATUS[name]))
    return tuple(edges)


@dataclass(slots=True)
class BurstTimes:
    """The times at which the platform is down: exponential gaps and lengths from the world slot's own uniforms."""

    model: Bursts
    draws: Draws
    slot: int
    # start and end of the outages known so far, simulated seconds, ascending
    spans: list[tuple[float, float]] = field(default_factory=list)

    def cover(self, at_s: float) -> bool:
        """Return whether a call that starts at this time falls into an outage."""
        spans, model = self.spans, self.model
        while not spans or spans[-1][1] <= at_s:
            row = self.draws.beyond(len(spans), self.slot)
            before = spans[-1][1] if spans else 0.0
            luck = row[DURATION], row[CONTENT]
            spans.append(outage_after(model.every_s, model.lasts_s, model.at_first, not spans, before, *luck))
        begin, end = spans[bisect_right(spans, (at_s, inf)) - 1]
        return begin <= at_s < end
