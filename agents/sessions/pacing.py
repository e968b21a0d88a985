"""Pace spending so that the budget lasts to the last query, by a shadow price that follows what was spent."""

from bisect import bisect_left
from math import ceil

import numpy as np
from numpy.typing import NDArray

from ...simulators.sessions.rules import VALUES

Floats = NDArray[np.float64]
_LOW, _HIGH = VALUES
_ABOVE = 1.0 + 1e-9


def indices(offers: NDArray[np.int64], chances: Floats, costs: Floats, kinds: int) -> tuple[Floats, NDArray[np.int64]]:
    """For each kind the lowest cost over chance, and the tool that has it; of (I,) arrays. A tool of chance 0 is not called."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(chances > 0.0, costs / chances, np.inf)
    grid = np.where(offers[None, :] == np.arange(kinds)[:, None], ratios[None, :], np.inf)
    best = grid.argmin(axis=1)
    return grid[np.arange(kinds), best], best


def shadow_price(offers: NDArray[np.int64], chances: Floats, uses: tuple[Floats, Floats], queries: float, kinds: int) -> float:
    """The value that a share of 1 of each budget is worth, such that the queries to come use up what is left.

    Both resources get the same multiplier of their share of what is left, the smallest under which neither is overspent on
    average. Queries are of each kind and of each value with equal chances, and the tools stay as they are now. `uses` are (I,)
    shares of money and time that a call uses. Source: bandits with knapsacks (Badanidiyuru, Kleinberg and Slivkins 2013).
    """
    money, time = uses
    index, best = indices(offers, chances, money + time, kinds)
    # one multiplier for both resources changes no order of the tools, so a kind's best tool is the same under each
    rows = [
        (float(index[kind]), float(money[tool] / chances[tool]), float(time[tool] / chances[tool]))
        for kind, tool in enumerate(best.tolist())
        if np.isfinite(index[kind])
    ]

    def overspends(multiplier: float) -> bool:
        spent = waited = 0.0
        for ratio, price, seconds in rows:
            bought = min(1.0, max(0.0, (_HIGH + 1 - ceil(multiplier * ratio)) / (_HIGH + 1 - _LOW)))
            spent, waited = spent + bought * price, waited + bought * seconds
        return max(spent, waited) * queries / kinds > 1.0

    if not overspends(0.0):
        return 0.0
    # what is bought changes where a value equals a kind's index, and nowhere else
    steps = sorted(value / ratio for ratio, _, _ in rows if ratio > 0.0 for value in range(_LOW, _HIGH + 1))
    place = bisect_left(steps, True, key=lambda step: not overspends(step * _ABOVE))
    return steps[min(place, len(steps) - 1)] * _ABOVE
