"""What a call's ending tells about a tool: a Bayesian filter over its hidden state in one episode."""

from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from math import erf, sqrt

import numpy as np
from numpy.typing import NDArray

from costgym.simulators.calls import CONNECTION_REFUSED_S, QUANTILES, Candidate, latency_factors
from costgym.simulators.failures import FailureModel, cumulative_kinds, state_chances
from costgym.simulators.status import Status

FAILED, WORKED, UNCALLED = range(3)  # how the call before ended, as far as the tool's chain goes; a time-out hides it
_WORKING = (Status.OK, Status.WRONG_ARGUMENTS, Status.NO_DATA)
_SAYS_NOTHING = (Status.OUTAGE, Status.CANCELLED)


@lru_cache(maxsize=256)
def next_chances(slip: float, persistence: float) -> NDArray[np.float64]:
    """Chance that the next call works, (3 states, 3 ways in which the call before ended)."""
    base = np.array([1.0 - slip, 0.5, slip])[:, None]
    return np.hstack([base - persistence * base, base + persistence * (1.0 - base), base])


@lru_cache(maxsize=64)
def _ways_to_fail(
    edges_of_kinds: tuple[tuple[float, Status], ...], sticky: float
) -> tuple[tuple[Status, ...], NDArray[np.float64]]:
    """The ways to fail, and the chance of each (columns) by the tool's usual one (rows)."""
    edges = np.diff([0.0, *(edge for edge, _ in edges_of_kinds)])
    return tuple(kind for _, kind in edges_of_kinds), sticky * np.eye(len(edges)) + (1.0 - sticky) * edges


class Belief:
    """The belief about one tool in one episode: its latent state, how its last call ended, and its usual way to fail.

    The filter is exact for a tool whose outages are seen as such. A time-out may be a tool that works and was too slow, by the
    chance `cut`, or one that fails by timing out; both are weighed. `states` are chances: alive, degraded, dead.
    """

    __slots__ = ("_by_usual", "_chance", "_cut", "_kinds", "_next", "_weights")

    def __init__(
        self,
        states: Sequence[float],
        model: FailureModel,
        slip: float | None = None,
        persistence: float | None = None,
        cut: float = 0.0,
    ) -> None:
        slip = model.slip if slip is None else slip
        self._next = next_chances(slip, model.persistence if persistence is None else persistence)
        kinds = cumulative_kinds(model.kinds)
        self._kinds, self._by_usual = _ways_to_fail(kinds, model.sticky)
        self._cut = cut
        usual = np.diff([0.0, *(edge for edge, _ in kinds)])
        self._weights = np.zeros((3, 3, len(usual)))  # by state, end of the call before, and usual way to fail
        self._weights[:, UNCALLED] = np.asarray(states)[:, None] * usual
        self._chance: float | None = None

    @classmethod
    def of(cls, spec: Candidate, model: FailureModel) -> "Belief":
        """The belief about a candidate whose reliability and durations are known."""
        alive, degraded = state_chances(spec.profile.reliability, spec.slip)
        return cls((alive, degraded, max(0.0, 1.0 - alive - degraded)), model, spec.slip, spec.persistence, cut_share(spec))

    @property
    def works(self) -> float:
        """Chance that the tool works at its next call, however long that takes."""
        if self._chance is None:
            self._chance = float((self._weights.sum(axis=2) * self._next).sum())
        return self._chance

    @property
    def chance(self) -> float:
        """Chance that the next call brings its answer before the time-out."""
        return self.works * (1.0 - self._cut)

    def fails_by(self, kind: Status) -> float:
        """Chance that the next call fails in this way."""
        if kind not in self._kinds:
            return 0.0
        failing = (self._weights * (1.0 - self._next)[:, :, None]).sum(axis=(0, 1))
        return float(failing @ self._by_usual[:, self._kinds.index(kind)])

    def learn(self, status: Status) -> None:
        """Take into account how an executed call ended. Refused calls tell nothing and must not be passed."""
        worked, failed = self._likelihoods(status)
        weights, chances = self._weights, self._next[:, :, None]
        updated = np.zeros_like(weights)
        updated[:, WORKED] = (weights * chances).sum(axis=1) * worked
        updated[:, FAILED] = (weights * (1.0 - chances)).sum(axis=1) * failed
        total = updated.sum()
        if total > 0.0:
            self._weights = updated / total
            self._chance = None

    def draw(self, luck: float, of_last: float, of_usual: float) -> tuple[int, int, Status]:
        """Draw a state, how the last call ended (`FAILED`, `WORKED`, `UNCALLED`) and the usual way to fail, by uniforms."""
        state = _pick(self._weights.sum(axis=(1, 2)), luck)
        last = _pick(self._weights[state].sum(axis=1), of_last)
        return state, last, self._kinds[_pick(self._weights[state, last], of_usual)]

    def _likelihoods(self, status: Status) -> tuple[float, NDArray[np.float64]]:
        """Chance of the status if the chain works, and if it fails by the tool's usual way to fail."""
        cut, kinds = self._cut, self._kinds
        if status in _SAYS_NOTHING:
            return 1.0, np.ones(len(kinds))
        if status in _WORKING:
            return 1.0 - cut, np.zeros(len(kinds))
        ends: NDArray[np.float64] = np.zeros(len(kinds))  # chance that a failure of each kind ends with this status
        for index, kind in enumerate(kinds):
            quick = kind is Status.CONNECTION_ERROR
            if status is Status.TIMEOUT:
                ends[index] = 1.0 if kind is Status.TIMEOUT else 0.0 if quick else cut
            elif status is kind:
                ends[index] = 1.0 if quick else 1.0 - cut
        return (cut if status is Status.TIMEOUT else 0.0), self._by_usual @ ends


def _pick(weights: NDArray[np.float64], luck: float) -> int:
    """The place at which the cumulative weight first exceeds the luck's share of the total."""
    edges = np.cumsum(weights)
    return min(int(np.searchsorted(edges, luck * edges[-1], "right")), len(edges) - 1)


def cut_share(spec: Candidate, limit_s: float | None = None) -> float:
    """Share of a candidate's calls that last longer than its time-out, or than a shorter limit."""
    limit = spec.profile.timeout_s if limit_s is None else min(limit_s, spec.profile.timeout_s)
    return 1.0 - bisect_right(spec.factors, limit, key=lambda factor: spec.latency_s * factor) / QUANTILES


@lru_cache(maxsize=65_536)
def _mean_duration_s(latency_s: float, spread: float, quantiles: tuple[float, ...], timeout_s: float) -> float:
    return float(np.minimum(latency_s * np.asarray(latency_factors(spread, quantiles)), timeout_s).mean())


def expected_price(spec: Candidate, belief: Belief, quote: float, bill_failures: bool, load_s: float) -> float:
    """What the next call of a candidate costs on average at this quote, with `load_s` seconds of loading that are billed."""
    paid = 1.0 if bill_failures else belief.chance
    if not spec.rate_per_s:
        return paid * quote
    about = spec.profile
    duration = _mean_duration_s(spec.latency_s, about.latency_spread, about.latency_quantiles, about.timeout_s)
    if bill_failures:
        refused, timed_out = belief.fails_by(Status.CONNECTION_ERROR), belief.fails_by(Status.TIMEOUT)
        duration = (1.0 - refused - timed_out) * duration + refused * CONNECTION_REFUSED_S + timed_out * spec.profile.timeout_s
    factor = quote / spec.quote if spec.quote else 1.0
    return paid * factor * (spec.fee + spec.rate_per_s * (duration + load_s))


_GRID = 64  # points that stand for the reliabilities between 0 and 1


def reliabilities(model: FailureModel) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Reliabilities that tools may have under a failure model, and the share of the tools that have each."""
    a, b = model.beta
    mean = model.perfect_share + (1 - model.dead_share - model.perfect_share) * a / (a + b)
    interior = (1 - model.dead_share - model.perfect_share) * (1 - abs(model.usable - mean))
    perfect = min(1 - interior, max(0.0, model.usable - interior * a / (a + b)))
    middles = (np.arange(_GRID) + 0.5) / _GRID
    # equal steps in a variable that is dense near 1, where the density of this Beta has its pole
    points = 1.0 - (1.0 - middles) ** 3
    density = points ** (a - 1.0) * (1.0 - points) ** (b - 1.0) * 3.0 * (1.0 - middles) ** 2
    shares = np.concatenate([[1.0 - perfect - interior], interior * density / density.sum(), [perfect]])
    return np.concatenate([[0.0], points, [1.0]]), shares


def states_given(model: FailureModel, advertised: float) -> tuple[float, float, float]:
    """Chances that a tool is alive, degraded and dead in an episode, given its advertised success."""
    points, shares = reliabilities(model)
    weights = advert_likelihood(model, advertised, points) * shares
    total = weights.sum()
    weights = weights / total if total > 0.0 else shares  # an advert that the model cannot have made says nothing
    pairs = np.array([state_chances(float(point), model.slip) for point in points])
    alive, degraded = (float(share) for share in weights @ pairs)
    return alive, degraded, max(0.0, 1.0 - alive - degraded)


def advert_likelihood(model: FailureModel, advertised: float, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """How likely an advertised success is, up to a factor, by the reliability of the tool: (G,) for G reliabilities."""
    centre = model.advertised_floor + (1.0 - model.advertised_floor) * points
    spread = max(model.advertised_spread, 1e-3)
    if 0.0 < advertised < 1.0:
        likelihood: NDArray[np.float64] = np.exp(-0.5 * ((advertised - centre) / spread) ** 2)
    else:  # the advert is cut off at both ends
        tail = np.array([0.5 + 0.5 * erf((value - advertised) / (spread * sqrt(2.0))) for value in centre])
        likelihood = tail if advertised >= 1.0 else 1.0 - tail
    return likelihood
