"""Compare rows over the episodes that all of them played.

One test decides which figures are bold, which ranks an agent may have, and whether another agent is as good: the sign-flip test
at 5 %, adjusted after Holm for the pairs that are compared together.
"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ..play.metric_registry import Row
from ..play.statistics import holm, sign_flip_p_values
from .rows import BY_EPISODE

LEVEL = 0.05
MAX_NAMES = 4  # of agents that are as good
ONLY = "No other agent stays within this budget."
ALONE = "Significantly better than every other agent within the budget."
Pair = tuple[int, int]


def rank_bands(rows: Sequence[Row], metric: str, seeds: int = 1) -> list[tuple[int, int] | None]:
    """The best and the worst rank that each row may have, by a figure that is better if higher: one more than the number of
    rows that are significantly better, and the number of those not significantly worse; None without figures by episode."""
    pairs = list(combinations(range(len(rows)), 2))
    best, worst = [1] * len(rows), [len(rows)] * len(rows)
    for (a, b), lead in zip(pairs, _leads(rows, metric, pairs, seeds), strict=True):
        if lead:
            ahead, behind = (a, b) if lead > 0 else (b, a)
            best[behind] += 1
            worst[ahead] -= 1
    tested = [_values(row, metric) is not None for row in rows]
    return [each if known else None for known, each in zip(tested, zip(best, worst, strict=True), strict=True)]


def as_good(leader: Row, others: Sequence[Row], metric: str, seeds: int = 1) -> list[bool | None]:
    """Whether the leader is not significantly better than each of the others; None without figures by episode."""
    leads = _leads([leader, *others], metric, [(0, place) for place in range(1, len(others) + 1)], seeds)
    return [None if lead is None else lead <= 0 for lead in leads]


def rivals_text(others: Sequence[tuple[str, bool | None]]) -> str:
    """Write which other agents within a budget are as good as the leader."""
    if not others:
        return ONLY
    names = [name for name, alike in others if alike]
    if not names:
        return ALONE if all(alike is not None for _, alike in others) else ""
    shown = ", ".join(names[:MAX_NAMES]) + (f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else "")
    return f"Not significantly better than {shown}."


def _leads(rows: Sequence[Row], metric: str, pairs: Sequence[Pair], seeds: int) -> list[int | None]:
    """Return 1 or -1 for each pair whose first or second row is significantly better, 0 for others, None if not paired."""
    values = [_values(row, metric) for row in rows]
    count = max((len(each) for each in values if each is not None), default=0)
    found: list[int | None] = [None] * len(pairs)
    differences = {
        place: one - other
        for place, (a, b) in enumerate(pairs)
        if (one := values[a]) is not None and (other := values[b]) is not None and len(one) == len(other) == count
    }
    if differences:
        # an episode that is void for one of a pair tells nothing: its difference is 0
        stacked = np.nan_to_num(np.stack(list(differences.values())))  # (n_pairs, n_episodes)
        if count % seeds == 0:
            stacked = stacked.reshape(len(stacked), -1, seeds).sum(axis=2)
        for place, each, p in zip(differences, stacked, holm(sign_flip_p_values(stacked).tolist()), strict=True):
            found[place] = int(np.sign(each.sum())) if p < LEVEL else 0
    return found


def _values(row: Row, metric: str) -> NDArray[np.float64] | None:
    figures = (row.get(BY_EPISODE) or {}).get(metric)
    if isinstance(figures, str):
        return np.array([np.nan if each == "-" else float(each == "1") for each in figures])
    return None if figures is None else np.array(figures, dtype=np.float64)
