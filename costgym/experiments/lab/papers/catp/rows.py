"""Rows of CATP-LLM's tables from episodes: means by group of tasks, and differences between agents, with intervals.

The paper averages over groups of tasks, not over tasks: an average is the mean of the groups' means, however many tasks each
has. Plans that are not valid are left out of its means: with 70.2 % valid plans it has a score of 0.634, which would be 0.903
of the valid ones alone if the others counted as 0, far above every other row. So it is under the published protocol here;
under the board's an invalid plan has a quality of -0.5, and a score and price of 0.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costgym.experiments.lab.papers.common import Row, interval_ends
from costgym.experiments.lab.papers.protocols import PUBLISHED
from costgym.experiments.play.results import EpisodeResult
from costgym.simulators.opencatp.tasks import OpenCATPTask, task

Results = Mapping[str, Sequence[EpisodeResult]]  # episodes by agent, in the order of the rows
AVERAGE = "average"
METRICS: Mapping[str, Callable[[EpisodeResult], float]] = {
    "quality_of_plan": lambda result: result.quality,
    "score": lambda result: float(result.figures["score"]),
    "average_cost": lambda result: result.price,
    "average_seconds": lambda result: result.seconds,
}


def group_of(asked: OpenCATPTask) -> str:
    """Return the group of a task in the paper's tables, by what it wants of an image: "image", "text" or "image and text"."""
    kinds = {"image" if want.is_image else "text" for want in asked.wants}
    return " and ".join(sorted(kinds))


def plan_rows(results: Results, protocol: str, seed: int = 0, average_only: bool = False, **common: Any) -> list[Row]:
    """Return the rows of some agents over the same episodes, one for each group of tasks (unless `average_only`) and one for
    their average; the protocol decides whether invalid plans are left out, and `common` are further entries of every row."""
    rows = []
    for agent, played in results.items():
        groups = dict.fromkeys(_group(result) for result in played)
        for group in (*([] if average_only else groups), AVERAGE):
            own = [result for result in played if group in (AVERAGE, _group(result))]
            rows.append({"agent": agent, "group": group, **_figures(own, protocol, seed), **common, "protocol": protocol})
    return rows


def difference_row(results: Results, ours: str, base: str, protocol: str, seed: int = 0, **common: Any) -> Row:
    """Return an agent's averages less those of another over the same episodes, with paired intervals; none without an episode
    that counts for both (the paper leaves out invalid plans)."""
    left, right = ({result.episode: result for result in results[name]} for name in (ours, base))
    places = [
        place
        for place in sorted(left.keys() & right.keys())
        if protocol != PUBLISHED or (_valid(left[place]) and _valid(right[place]))
    ]
    weights = _weights([left[place] for place in places])
    figures: dict[str, float] = {}
    ends: dict[str, list[float]] = {}
    for name, value in METRICS.items() if places else ():
        columns = np.array([[value(left[place]), value(right[place])] for place in places])
        means = weights @ columns / weights.sum()
        figures[name] = float(means[0] - means[1])
        below = np.repeat(weights[:, None], 2, axis=1)
        ends |= interval_ends([name], columns * below, below, places, seed, difference=True)
    model = results[ours][0].model
    return {"agent": f"{ours} less {base}", "model": model, **figures, **common, "protocol": protocol, "ci95": ends}


def _figures(played: Sequence[EpisodeResult], protocol: str, seed: int) -> Row:
    valid = np.array([_valid(result) for result in played], np.float64)
    weights = _weights(played)
    # the paper's means leave invalid plans out: their weight is 0 in every column but the share of valid plans
    counted = weights * valid if protocol == PUBLISHED else weights
    columns = np.array([[*(value(result) for value in METRICS.values()), _valid(result)] for result in played], np.float64)
    below = np.stack([*([counted] * len(METRICS)), weights], axis=1)
    names = (*METRICS, "plan_validity")
    sums = below.sum(axis=0)
    figures = {
        name: float((columns[:, place] * below[:, place]).sum() / sums[place])
        for place, name in enumerate(names)
        if sums[place] > 0
    }
    ends = interval_ends(names, columns * below, below, [result.episode for result in played], seed)
    ends = {name: pair for name, pair in ends.items() if name in figures}
    return {"model": played[0].model, "episodes": len(played), **figures, "ci95": ends}


def _weights(played: Sequence[EpisodeResult]) -> NDArray[np.float64]:
    """Weight of each episode, so that every group of tasks weighs the same.  # (episodes,)"""
    groups = [_group(result) for result in played]
    return np.array([1.0 / groups.count(group) for group in groups])


def _group(result: EpisodeResult) -> str:
    return group_of(task(int(result.task.split("-")[1])))  # "sequential-24-sample-60"


def _valid(result: EpisodeResult) -> bool:
    return bool(result.figures["plan_valid"])
