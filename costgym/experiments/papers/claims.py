"""Check published claims against our measurements: what a claim is, and how a difference stands beside the paper's.

Every claim is taken from a paper and has an explicit margin. Claims that a rule or a rate of the simulation decides, whatever
is played, are marked `by_construction`, with the reason, and counted nowhere. Nor are checks that no paper makes.
"""

from collections.abc import Collection, Mapping, Sequence
from math import isnan
from statistics import fmean, pstdev
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from costgym.experiments.papers.paper import Row, published
from costgym.experiments.play.metrics import episode_figures
from costgym.experiments.play.results import EpisodeResult
from costgym.experiments.play.statistics import intervals

Results = Mapping[str, Sequence[EpisodeResult]]  # episodes by agent
RESAMPLES = 2000
PASSES = {
    "judge": ("judged_pass_rate", "judged_pass_rate_under_budget"),
    "strict": ("pass_rate", "pass_rate_under_budget"),
}
UNPUBLISHED = "not in the paper"

MARGIN = 10.0
"""Points within which a difference counts as the paper's: a model judge that grades the same answers again moves a pass rate by
5 to 9 points (StableToolBench), so a smaller difference between two tables says nothing."""
ALIKE = 5.0  # points within which a rate counts as unchanged: the least of those 5 to 9
QUALITY_MARGIN, QUALITY_ALIKE = 0.5 * MARGIN / 100, 0.5 * ALIKE / 100
"""The same for the Quality of Plan, in which a score, a rate from 0 to 1, has the weight alpha = 0.5."""
NONE = float("nan")
Points = tuple[float, float, float]  # a difference, and the ends of its 95 % interval


class Printed(NamedTuple):
    """The paper's two figures behind a claim."""

    base: float  # of the system compared with
    ours: float  # of the paper's own
    spread: float  # standard deviation of the figure over the rows of its table; 0 where it prints no other


def effect(
    claim: str,
    measured: str,
    follows: bool,
    grading: str = "",
    source: str = "",
    by: str = "",
    points: Points | None = None,
    paper: Printed | None = None,
    levels: tuple[float, float] | None = None,
    margin: float = MARGIN,
) -> Row:
    """Return a checked claim as `reproduce` does; `by` is the reason for which it is true or false by construction. Where the
    paper's figures are known, `points` is our difference with its interval, `levels` are our two figures, and the row has the
    paper's difference as `paper`, ours with its interval as `here`, ours less the paper's as `distance` and in `spreads` of its
    table, and `two_sided`, see there."""
    row: Row = {"claim": claim, "grading": grading, "measured": measured, "follows": follows, "source": source}
    if points is not None and paper is not None and not isnan(points[0]):
        digits = 1 if margin >= 1 else 3
        difference = paper.ours - paper.base
        distance = points[0] - difference
        row |= {
            "paper": round(difference, digits),
            "here": [round(value, digits) for value in points],
            "distance": round(distance, digits),
            "two_sided": two_sided(*points[1:], difference, margin),
            "paper_levels": [round(paper.base, digits), round(paper.ours, digits)],
        }
        if paper.spread:
            row["spreads"] = round(distance / paper.spread, 1)
        if levels is not None:
            row["levels"] = [round(level, digits) for level in levels]
    return {**row, "by_construction": bool(by), **({"reason": by} if by else {})}


def two_sided(low: float, high: float, paper: float = 0.0, margin: float = MARGIN) -> str:
    """Compare a 95 % interval with the paper's difference and a margin around it, in points: "same" where the interval lies
    within the margin, "larger" or "smaller" where it lies wholly beyond, else "open"."""
    if paper - margin <= low and high <= paper + margin:
        return "same"
    return "larger" if low > paper + margin else "smaller" if high < paper - margin else "open"


def counted(effects: Sequence[Row]) -> list[Row]:
    """Return the effects that count: claims of the paper that playing decides."""
    return [row for row in effects if not row["by_construction"] and row["source"] != UNPUBLISHED]


def printed(name: str, ours: str, base: str, metric: str, unit: float = 100.0, **where: object) -> Printed | None:
    """Return the paper's two figures, by default in points, as means over groups that have both; None without such rows."""
    rows = [row for row in published(name) if metric in row and all(row.get(key) == value for key, value in where.items())]
    values = {(row["agent"], row.get("group")): unit * row[metric] for row in rows}
    groups = [group for agent, group in values if agent == ours and (base, group) in values]
    if not groups:
        return None
    base_level, level = (fmean(values[agent, group] for group in groups) for agent in (base, ours))
    return Printed(base_level, level, pstdev(values.values()))


def levels_of(base: Row, ours: Row, metric: str, unit: float = 100.0) -> tuple[float, float]:
    """Return a metric of two rows, by default in points."""
    return unit * base.get(metric, NONE), unit * ours.get(metric, NONE)


def in_words(points: Points, unit: str = "points") -> tuple[str, Points]:
    """Return a difference as text and as it is."""
    difference, low, high = points
    return f"{difference:+.1f} {unit} [{low:+.1f}, {high:+.1f}]", points


def difference_in_points(results: Results, ours: str, base: str, metric: str, seed: int) -> tuple[str, Points]:
    """Return the difference of two agents in percentage points, with its paired interval."""
    difference, low, high = paired_means(results[ours], results[base], metric, seed)
    return in_words((100 * difference, 100 * low, 100 * high))


def paired_means(ours: Sequence[EpisodeResult], base: Sequence[EpisodeResult], metric: str, seed: int) -> Points:
    """Return the difference of two agents' means over the same episodes, with its 95 % interval by paired bootstrap, in the
    twelve digits to which different machines agree."""
    sides = [[float(value or 0.0) for value in episode_figures(side, metric, len(side))] for side in (ours, base)]
    ends = interval_ends([metric], np.array(sides).T, seed=seed, difference=True)[metric]
    difference, low, high = (float(f"{value:.12g}") + 0.0 for value in (fmean(sides[0]) - fmean(sides[1]), *ends))
    return difference, low, high


def interval_ends(
    names: Collection[str],
    above: NDArray[np.float64],
    below: NDArray[np.float64] | None = None,
    episodes: Sequence[int] | None = None,
    seed: int = 0,
    *,
    difference: bool = False,
) -> dict[str, list[float]]:
    """The 95 % intervals of figures by name, by bootstrap over episodes (their numbers, or from 0), from the numerators `above`
    and denominators `below` of each, (episodes, figures); None for means. With `difference`, `above` has two columns, and the
    one figure is the first less the second."""
    below = np.ones_like(above) if below is None else below
    episodes = range(len(above)) if episodes is None else episodes
    lows, highs = intervals(above, below, episodes, seed, RESAMPLES, difference=difference)
    return {name: [float(low), float(high)] for name, low, high in zip(names, lows, highs, strict=True)}
