"""Compare rows over the episodes that all of them played.

One test decides which figures are bold, which ranks an agent may have, and whether another agent is as good: the sign-flip test
at 5 %, adjusted after Holm for the pairs that are compared together.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ..play.metric_registry import Row
from ..play.statistics import holm, sign_flip_p_values
from .rows import BY_EPISODE

LEVEL = 0.05
Pair = tuple[int, int]


def rank_bands(rows: Sequence[Row], metric: str, seeds: int = 1) -> list[tuple[int, int]] | None:
    """The best and the worst rank that each row may have.

    Args:
        rows: of one condition.
        metric: the figure that ranks, which is better if higher.
        seeds: episodes of one task in a row; they are one trial.

    Returns:
        For each row one more than the number of rows that are significantly better, and the number of those that are not
        significantly worse; None where a row lacks its figures by episode.
    """
    pairs = list(combinations(range(len(rows)), 2))
    leads = _leads(rows, metric, pairs, seeds)
    if leads is None:
        return None
    best, worst = [1] * len(rows), [len(rows)] * len(rows)
    for (a, b), lead in zip(pairs, leads, strict=True):
        if lead:
            ahead, behind = (a, b) if lead > 0 else (b, a)
            best[behind] += 1
            worst[ahead] -= 1
    return list(zip(best, worst, strict=True))


def as_good(leader: Row, others: Sequence[Row], metric: str, seeds: int = 1) -> list[bool | None]:
    """Whether the leader is not significantly better than each of the others; None without figures by episode."""
    leads = _leads([leader, *others], metric, [(0, place) for place in range(1, len(others) + 1)], seeds)
    return [None] * len(others) if leads is None else [lead <= 0 for lead in leads]


def _leads(rows: Sequence[Row], metric: str, pairs: Sequence[Pair], seeds: int) -> list[int] | None:
    """Return 1 or -1 for each pair whose first or second row is significantly better, else 0."""
    found = [_values(row, metric) for row in rows]
    values = [each for each in found if each is not None]
    if len(values) < len(rows) or len({len(each) for each in values}) > 1:
        return None
    if not pairs:
        return []
    # an episode that is void for one of a pair tells nothing: its difference is 0
    differences = np.nan_to_num(np.stack([values[a] - values[b] for a, b in pairs]))  # (n_pairs, n_episodes)
    if differences.shape[1] % seeds == 0:
        differences = differences.reshape(len(pairs), -1, seeds).sum(axis=2)
    p_values = holm(sign_flip_p_values(differences).tolist())
    return [int(np.sign(each.sum())) if p < LEVEL else 0 for each, p in zip(differences, p_values, strict=True)]


def _values(row: Row, metric: str) -> NDArray[np.float64] | None:
    figures = (row.get(BY_EPISODE) or {}).get(metric)
    if isinstance(figures, str):
        return np.array([np.nan if each == "-" else float(each == "1") for each in figures])
    return None if figures is None else np.array(figures, dtype=np.float64)
