"""Whether a claim and its rerun are figures of one agent: the rule, in one place.

The claim was played in one world, the rerun in several others. Every episode's value is set against what reference agents and
the optimum reached in the same episode (same world, task and luck): one least-squares slope each, over the worlds of the rerun,
each centred, so that what is claimed has no say in it. The gap is the claim's mean less that of the rerun's worlds, once the
slopes have taken out how lucky the episodes and how hard the worlds were. Its variance has three parts: the claim's residuals;
those of the rerun's worlds, over the square of their number; and the spread between worlds that is left (`WORLD_SD`), once for
the claim and once for each of those worlds. Residuals of one task are summed first, since they are alike.

* `confirmed`: the gap lies within `MARGIN` by both one-sided tests at 5 % (TOST: its 90 % interval lies inside).
* `refuted`: the gap is above 0 by a one-sided test at `LEVEL`, times the number of rows compared (Bonferroni), and it is not
  confirmed.
* `undecided`: neither; the episodes are too few.

Whatever the word, a row is ranked by its rerun: by the figure that it comes to in the claim's world, which is the claim less
the gap. A rerun in easy worlds gains nothing by it.

Source: Schuirmann (1987), A comparison of the two one-sided tests procedure; Deng et al. (2013), Improving the sensitivity of
online controlled experiments by utilizing pre-experiment data.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

MARGIN = 0.05  # largest gap at which two figures count as the same: five points, or 0.05 of a plan score
Z95 = 1.959963984540054
Z90 = 1.6448536269514722  # of the standard normal distribution, for intervals of 95 % and of 90 % (two one-sided tests at 5 %)
LEVEL = 0.01  # of the honest submissions, at most this share has a row that is refuted, whatever the number of its rows
WORLD_SD = {"text": 0.006, "numbers": 0.012, "decisions": 0.043}
"""Standard deviation of an honest agent's figure between generated worlds, beyond its episodes and after the adjustment.

`benchmarks/hostile/honest_entries.py`, over 15 worlds of `quick` and pooled over agents: 0 of text (largest agent 0.011),
0.012 of numbers, 0.034 of decisions (largest 0.040). What is set is no smaller, and for text and decisions larger.
"""
OTHER_WORLD_SD = 0.05  # of a track for which none is measured
MIN_TASKS = 10  # tasks for each slope, at least; with fewer nothing is adjusted


class WorldSide(NamedTuple):
    """The episodes of a row in one world."""

    values: NDArray[np.float64]  # of each episode, (n_episodes,); a void one counts as a failure
    references: NDArray[np.float64]  # values of the references in the same episodes, (n_episodes, n_references)
    tasks: NDArray[np.int64]  # of each episode, (n_episodes,)


class Gap(NamedTuple):
    """The adjusted gap between a claim and its rerun."""

    gap: float  # the claim less the rerun
    error: float  # its standard error
    rerun: float  # what the rerun comes to in the claim's world: its mean after the adjustment, which ranks the row
    rerun_error: float  # its standard error

    @property
    def ci90(self) -> tuple[float, float]:
        return self.gap - Z90 * self.error, self.gap + Z90 * self.error

    @property
    def confirmed(self) -> bool:
        low, high = self.ci90
        return max(-low, high) < MARGIN

    @property
    def p_value(self) -> float:
        """Of a gap at least so large, if claim and rerun were the same agent's."""
        return tail(self.gap, self.error)


def gap_of(claimed: WorldSide, rerun: Sequence[WorldSide], spread: float, share: bool) -> Gap:
    """The adjusted gap between a claim and its rerun. `spread` is the standard deviation between worlds after the adjustment;
    of a share, no world's error is smaller than if one more task had gone the other way."""
    sides = [claimed, *rerun]
    if not all(len(side.values) for side in sides):
        return Gap(0.0, math.inf, 0.0, math.inf)
    means, variances = adjusted(sides, sides[1:], share)
    worlds = len(rerun)
    gap = means[0] - math.fsum(means[1:]) / worlds
    of_rerun = math.fsum(variances[1:]) / worlds**2 + spread**2 / worlds
    again = float(sides[0].values.mean()) - gap
    return Gap(gap, math.sqrt(variances[0] + spread**2 + of_rerun), again, math.sqrt(of_rerun))


def adjusted(sides: Sequence[WorldSide], fitted: Sequence[WorldSide], share: bool) -> tuple[list[float], list[float]]:
    """The mean of each world after the adjustment fitted over the worlds `fitted`, and its variance by its episodes."""
    centred = [side.values - side.values.mean() for side in fitted]
    others = [side.references - side.references.mean(axis=0) for side in fitted]
    slopes = np.zeros(sides[0].references.shape[1])
    tasks = sum(len(np.unique(side.tasks)) for side in fitted)
    if tasks >= MIN_TASKS * max(1, len(slopes)):
        slopes = np.linalg.lstsq(np.concatenate(others), np.concatenate(centred), rcond=None)[0]
    means, variances = [], []
    for side in sides:
        rest = side.values - side.references @ slopes
        means.append(float(rest.mean()))
        sums = np.bincount(np.unique(side.tasks, return_inverse=True)[1], weights=rest - rest.mean())
        within = float((sums**2).sum()) / len(rest) ** 2 * tasks / max(1, tasks - len(slopes) - len(sides))
        variances.append(max(within, (len(sums) + 2.0) ** -2 if share else 1e-12))
    return means, variances


def tasks_needed(spread_of_tasks: float, between: float, worlds: int, share: bool) -> int | None:
    """Return the tasks in each world below which no claim can be confirmed, even where both figures are the same; None where
    worlds differ by so much that none is enough. `between` is the standard deviation between worlds."""
    room = (MARGIN / Z90) ** 2 / (1.0 + 1.0 / worlds) - between**2
    if room <= 0.0:
        return None
    return max(math.ceil(spread_of_tasks / room), math.ceil(room**-0.5) - 2 if share else 1)


def too_few(tasks: int, needed: int | None, about: str = "about") -> str:
    """Say that no claim can be confirmed on so many tasks; "" where one can be."""
    if needed is None:
        return "no number of tasks can confirm a claim here, because worlds differ too much for a margin of five points"
    return f"{tasks} tasks are too few to confirm any claim: {about} {needed} are needed" if tasks < needed else ""


def tail(difference: float, error: float) -> float:
    """The chance of a difference at least so large, of the normal distribution."""
    return 0.5 * math.erfc(difference / max(error, 1e-9) / math.sqrt(2.0))


def tidy(*values: Any) -> list[float]:
    """Values to six digits, to which different machines agree."""
    return [float(f"{value:.6g}") for value in values]
