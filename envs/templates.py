"""Templates: what the environment of the marketplace computes once for a task."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..simulators.world import Episode

PhaseKey = tuple[tuple[bool, ...], tuple[int, ...]]


class Phase(NamedTuple):
    """The arrays that follow from the known facts alone: `observation["needs"]`, and the mask before prices, bans and
    `wait`."""

    needs: NDArray[np.float32]
    mask: NDArray[np.bool_]


class Template(NamedTuple):
    """The arrays of a task at its start.

    Attributes:
        tools: (max_tools, 16) `observation["tools"]`.
        needs: (6, 3) `observation["needs"]`.
        mask: (actions,) what is allowed before prices, bans and needs are looked at.
        slots: the candidate of each row, by its index in the task.
        rows: the row of each candidate.
        need_of: (max_tools,) the need that a row serves; 6 for one that the observation does not show, 7 for none.
        quotes, dearest: the price of each row's candidate at the start, and the highest.
        phases: the task's `Phase`s that were computed so far, by what is known and how often each need has changed; None is
            the key of the first.
        cheapest: (actions,) masks that let calls of the n cheapest candidates through, by n; those that were needed so far.
    """

    tools: NDArray[np.float32]
    needs: NDArray[np.float32]
    mask: NDArray[np.bool_]
    slots: tuple[int, ...]
    rows: tuple[int, ...]
    need_of: NDArray[np.int64]
    quotes: tuple[float, ...]
    dearest: float
    phases: dict[PhaseKey | None, Phase]
    cheapest: dict[int, NDArray[np.bool_]]

    def covered(self, episode: Episode) -> NDArray[np.bool_]:
        """The mask of what the budget covers at the prices of the start; only calls are masked: (actions,)."""
        budget, ledger, quotes = episode.budget, episode.ledger, self.quotes
        spent = ledger.price + episode._reserved
        if budget.calls is not None and ledger.calls + episode.in_flight + 1 > budget.calls:
            count = 0
        elif budget.price is None or spent + self.dearest <= budget.price:
            count = len(quotes)
        else:
            limit = budget.price
            count = sum([spent + quote <= limit for quote in quotes])
        mask = self.cheapest.get(count)
        return self._cheapest(count) if mask is None else mask

    def _cheapest(self, count: int) -> NDArray[np.bool_]:
        """Sums are rounded to the nearest float, which keeps their order: what the budget covers are the cheapest."""
        mask = np.ones(len(self.mask), np.bool_)
        mask[: len(self.need_of)] = False
        mask[sorted(range(len(self.quotes)), key=self.quotes.__getitem__)[:count]] = True
        self.cheapest[count] = mask
        return mask
