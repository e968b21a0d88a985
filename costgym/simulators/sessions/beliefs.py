"""What an agent may believe of a session's tools: a Bayesian filter over regimes, from adverts and statuses."""

from functools import lru_cache
from math import exp

import numpy as np
from numpy.typing import NDArray

from costgym.simulators.calls import CONNECTION_REFUSED_S, latency_factors
from costgym.simulators.failures import FailureModel, state_chances
from costgym.simulators.sessions.plan import SPREADS, TIMEOUT_S, kind_shares
from costgym.simulators.sessions.rules import SessionRules
from costgym.simulators.status import Status
from costgym.simulators.world.belief import advert_likelihood, reliabilities

Floats = NDArray[np.float64]
_SAYS_NOTHING = (Status.OUTAGE, Status.CANCELLED)
RATIOS = (0.85, 0.925, 1.0, 1.075, 1.15)  # what an advertised latency is to the median


class ToolBeliefs:
    """Beliefs about the regimes of I tools, from (I,) advertised chances of success and (I,) advertised latencies, seconds:
    weights over the reliabilities that a tool may have, and its three states. Between two queries a tool enters a new regime
    with the rules' chance, which draws a state by its reliability."""

    def __init__(self, rules: SessionRules, adverts: Floats, latencies_s: Floats) -> None:
        model = rules.failures
        points, shares = reliabilities(model)
        self._points = points
        pairs = np.array([state_chances(float(point), model.slip) for point in points])
        self._states = np.column_stack([pairs, np.maximum(0.0, 1.0 - pairs.sum(axis=1))])  # (G, 3) by reliability
        self._works = np.array([1.0 - model.slip, 0.5, model.slip])
        self._drift = rules.drift
        likelihood = np.array([advert_likelihood(model, float(advert), points) for advert in adverts])
        weights = likelihood * shares
        weights /= weights.sum(axis=1, keepdims=True)
        self._prior: Floats = weights[:, :, None] * self._states
        self.forget()
        timings = np.array([timing(round(float(at), 2)) for at in latencies_s])
        self.cut, self.lasts_s = timings[:, 0], timings[:, 1]
        self._timeouts, self._refusals = kind_shares(model)

    def forget(self) -> None:
        """Go back to the beliefs of the start."""
        self._weights = self._prior.copy()
        self._summed: Floats | None = None

    def next_query(self) -> None:
        """Let a query pass: regimes may have changed."""
        weights, drift, self._summed = self._weights, self._drift, None
        self._weights = (1.0 - drift) * weights + drift * weights.sum(axis=2, keepdims=True) * self._states

    def learn(self, slot: int, status: Status) -> None:
        """Take into account how an executed call ended."""
        works, cut = self._works, float(self.cut[slot])
        if status in _SAYS_NOTHING:
            return
        if status is Status.OK:
            likelihood = works * (1.0 - cut)
        elif status is Status.TIMEOUT:
            slow = (1.0 - self._timeouts - self._refusals) * cut
            likelihood = works * cut + (1.0 - works) * (self._timeouts + slow)
        else:
            likelihood = 1.0 - works
        updated = self._weights[slot] * likelihood
        total = updated.sum()
        if total > 0.0:
            self._weights[slot], self._summed = updated / total, None

    @property
    def _by_state(self) -> Floats:
        """(I, 3) beliefs about states. An agent reads them several times a step, and the sum takes most of its time."""
        if self._summed is None:
            self._summed = self._weights.sum(axis=1)
        return self._summed

    @property
    def mean(self) -> Floats:
        """(I,) chance that the next call works."""
        means: Floats = self._by_state @ self._works
        return means

    @property
    def spread(self) -> Floats:
        """(I,) standard deviation of that chance over the regimes that the tool may be in."""
        spreads: Floats = np.sqrt(np.maximum(0.0, self._by_state @ self._works**2 - self.mean**2))
        return spreads

    def draw_hidden(self, lucks: Floats) -> tuple[Floats, NDArray[np.int64]]:
        """(I,) reliabilities and (I,) states, drawn together from the beliefs by (I,) uniforms."""
        count, points, states = self._weights.shape
        edges = np.cumsum(self._weights.reshape(count, -1), axis=1)
        cells = np.minimum((lucks[:, None] * edges[:, -1:] >= edges).sum(axis=1), points * states - 1)
        return self._points[cells // states], cells % states

    def sample(self, lucks: Floats) -> Floats:
        """(I,) a chance for each tool, drawn from the beliefs by (I,) uniforms."""
        edges = np.cumsum(self._by_state, axis=1)
        states = (lucks[:, None] * edges[:, -1:] >= edges).sum(axis=1)
        chances: Floats = self._works[np.minimum(states, 2)]
        return chances


def call_seconds(model: FailureModel, works: Floats, lasts_s: Floats) -> Floats:
    """(I,) mean seconds of a call, by the chance that it works and the mean duration of one that runs."""
    timeouts, refusals = kind_shares(model)
    fails = timeouts * TIMEOUT_S + refusals * CONNECTION_REFUSED_S + (1.0 - timeouts - refusals) * lasts_s
    return works * lasts_s + (1.0 - works) * fails


@lru_cache(maxsize=65_536)
def timing(advertised_s: float) -> tuple[float, float]:
    """The chance that the time-out cuts a call off, and the mean seconds of a call, given the advertised latency."""
    drawn = [np.asarray(latency_factors(spread)) * (advertised_s / ratio) for spread in SPREADS for ratio in RATIOS]
    cut = sum(float((durations > TIMEOUT_S).mean()) for durations in drawn) / len(drawn)
    return cut, sum(float(np.minimum(durations, TIMEOUT_S).mean()) for durations in drawn) / len(drawn)


def alive(age_s: float, ttl_s: float) -> float:
    """The chance that a fact of this age is still right."""
    return exp(-age_s / ttl_s)
