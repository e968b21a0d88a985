"""What a tool's advert tells of its reliability, under the failure model that drew both."""

from math import erf, sqrt

import numpy as np
from numpy.typing import NDArray

from ..failures import FailureModel, state_chances

_GRID = 64
"""Points that stand for the reliabilities between 0 and 1."""


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
    weights /= weights.sum()
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
