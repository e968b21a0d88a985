"""Judge a fitted scenario: play it in the shape of a log, and compare each tool's figures with the log's.

The world is called as often, at the same times and in the same episodes as the log says; only its luck is its own. Figures of
the log have 95 % intervals, by a bootstrap over episodes. What lies outside is not reproduced.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costgym.experiments.fit.calibration.fits import FAILS, WORKS
from costgym.experiments.play.call_logs.log import LoggedCall
from costgym.simulators.errors import require
from costgym.simulators.ledger import Budget
from costgym.simulators.scenario import parse_scenario
from costgym.simulators.status import Status

FloatArray = NDArray[np.float64]
FIGURES = {
    "success": "success",
    "latency_p50_s": "median latency",
    "latency_p90_s": "90 % latency",
    "latency_p99_s": "99 % latency",
    "failure_latency_p50_s": "median latency of failures",
    "price": "mean price",
    "failure_after_failure": "failures after a failure",
    "failure_run": "length of runs of failures",
    "refused": "refusals for the rate",
}
"""Figures by which each tool is judged, with their names in words."""
_QUANTILES = {"latency_p50_s": 0.5, "latency_p90_s": 0.9, "latency_p99_s": 0.99, "failure_latency_p50_s": 0.5}
_LEAST = {"latency_p50_s": 10, "latency_p90_s": 50, "latency_p99_s": 500, "failure_latency_p50_s": 20}
"""Fewest durations with which a quantile is judged."""
MIN_UNITS = 5
BLOCK = 20
RESAMPLES = 400
SIMULATED_CALLS = 400_000
"""Calls that are simulated in all; each tool has an equal share of them, at most `MAX_TOOL_CALLS` if the log has fewer."""
MIN_TOOL_CALLS, MAX_TOOL_CALLS = 4_000, 10_000
MAX_REPEATS = 100
ROUNDING = 1e-4
"""Relative difference that the rounding of the written numbers explains."""
Chain = list[LoggedCall]


def simulate(document: Mapping[str, Any], chains: Mapping[str, Sequence[Chain]]) -> dict[str, list[Chain]]:
    """Play a scenario's listed tools, a task for each, in the shape of a log: `chains` holds the logged calls by the tool's
    name in the scenario and by episode. Returns the simulated calls, as a log would have them, in the same form."""
    tools = [tool for tool in document["source"]["tools"] if tool["name"] in chains]
    needs = [[{"capability": tool.get("capability") or tool["name"], "fact": "fact"}] for tool in tools]
    tasks = [{"query": t["name"], "needs": need, "tools": [t["name"]]} for t, need in zip(tools, needs, strict=True)]
    source = {**document["source"], "tools": tools, "tasks": tasks}
    world = parse_scenario({**document, "source": source}, "the fitted scenario").build()
    calls_of_tool: dict[str, list[Chain]] = {}
    wanted = min(MAX_TOOL_CALLS, max(MIN_TOOL_CALLS, SIMULATED_CALLS // max(1, len(tools))))
    for number, tool in enumerate(tools):
        name, played = str(tool["name"]), []
        shape = [[call.started_s - chain[0].started_s for call in chain] for chain in chains[name]]
        size = sum(map(len, shape))
        for repeat in range(max(1, min(MAX_REPEATS, -(-wanted // max(1, size))))):
            for index, offsets in enumerate(shape):
                episode = world.episode(number, repeat * len(shape) + index, Budget(), "record")
                calls = []
                for offset in offsets:
                    if offset > episode.now_s:
                        episode.advance(offset - episode.now_s)
                    calls.append(episode.submit(0))
                while episode.in_flight:
                    episode.wait()
                ran = ((call.submitted_s, call.finished_s - call.submitted_s, call.status, call.price) for call in calls)
                played.append([LoggedCall(name, *call) for call in ran])
        calls_of_tool[name] = played
    return calls_of_tool


# -- figures ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of one tool's calls, with its 95 % interval."""

    value: float | None  # None where there is too little to tell
    low: float = math.nan
    high: float = math.nan


def figures(chains: Sequence[Chain], intervals: bool = True) -> dict[str, Figure]:
    """The figures of `FIGURES` of one tool's calls, with bootstrapped intervals unless `intervals` is False."""
    # what is resampled: episodes, or runs of `BLOCK` calls where there are only a few long episodes
    blocks = [chain[i : i + BLOCK] for chain in chains for i in range(0, len(chain), BLOCK)]
    units = chains if len(chains) >= MIN_UNITS else blocks
    weights = None
    if intervals:
        # a fixed seed: the same log has the same intervals, and a resample is a vector of weights over the units
        drawn = np.random.default_rng(0).integers(len(units), size=(RESAMPLES, len(units)))
        weights = np.stack([np.bincount(row, minlength=len(units)) for row in drawn]).astype(np.float64)  # (RESAMPLES, units)
    counts = np.array([_counts(unit) for unit in units], dtype=np.float64)  # (units, 2 * shares)
    by_name = {}
    for index, name in enumerate(("success", "failure_after_failure", "failure_run", "refused", "price")):
        by_name[name] = _ratio(counts[:, 2 * index], counts[:, 2 * index + 1], weights, proportion=name != "price")
    begins = by_name["failure_run"]  # the share of failures that begin a run
    by_name["failure_run"] = (
        Figure(1 / begins.value, 1 / begins.high, 1 / max(begins.low, 1e-9)) if begins.value else Figure(None)
    )
    for name, share in _QUANTILES.items():
        wanted = FAILS - {Status.TIMEOUT, Status.CONNECTION_ERROR} if name.startswith("failure") else WORKS
        values = [
            (c.latency_s, i) for i, unit in enumerate(units) for c in unit if c.status in wanted and c.latency_s is not None
        ]
        by_name[name] = _quantile(values, share, weights) if len(values) >= _LEAST[name] else Figure(None)
    return {name: by_name[name] for name in FIGURES}


def _counts(chain: Chain) -> list[float]:
    ran = [call for call in chain if call.status is not Status.RATE_LIMITED]
    well = [call.status in WORKS for call in ran]
    pairs = Counter(pairwise(well))
    again, after = pairs[False, False], pairs[False, False] + pairs[False, True]
    failures = well.count(False)
    prices = [call.price for call in ran if call.price is not None]
    return [
        *(well.count(True), len(well), again, after),
        *(failures - again, failures, len(chain) - len(ran), len(chain), math.fsum(prices), len(prices)),
    ]


def _ratio(above: FloatArray, below: FloatArray, weights: FloatArray | None, proportion: bool) -> Figure:
    total = float(below.sum())
    if total == 0:
        return Figure(None)
    value = float(above.sum()) / total
    if weights is None:
        return Figure(value)
    totals = weights @ below
    drawn = (weights @ above)[totals > 0] / totals[totals > 0]
    low, high = (float(end) for end in np.percentile(drawn, [2.5, 97.5]))
    if proportion:
        wilson = require("scipy.stats", "train").binomtest(round(above.sum()), round(total)).proportion_ci(method="wilson")
        low, high = min(low, float(wilson.low)), max(high, float(wilson.high))
    return Figure(value, low, high)


def _quantile(values: Sequence[tuple[float, int]], share: float, weights: FloatArray | None) -> Figure:
    ordered = sorted(values)
    seconds = np.array([value for value, _ in ordered])
    value = float(seconds[max(0, math.ceil(share * len(seconds)) - 1)])
    if weights is None:
        return Figure(value)
    units = np.array([unit for _, unit in ordered])
    drawn = []
    for row in weights:
        running = np.cumsum(row[units])
        if running[-1] > 0:
            drawn.append(seconds[np.searchsorted(running, share * running[-1])])
    low, high = (float(end) for end in np.percentile(drawn, [2.5, 97.5]))
    return Figure(value, low, high)


# -- the comparison ---------------------------------------------------------------------------------------------------------


def compare(logged: Mapping[str, Figure], world: Mapping[str, Figure], fitted_to: Mapping[str, Figure] | None = None) -> Any:
    """Each figure of the log beside the world's, as `log`, `ci95`, `world` and `within`; figures that one of the two lacks are
    left out. Where the world was fitted to other calls than `logged`, `fitted_to` holds their figures, whose uncertainty then
    counts too."""
    rows = {}
    for name, figure in logged.items():
        other = world[name].value
        if figure.value is None or other is None or (name == "refused" and figure.value == other == 0.0):
            continue
        low, high = figure.low, figure.high
        if fitted_to is not None and (source := fitted_to[name]).value is not None:
            low = figure.value - math.hypot(figure.value - low, source.high - source.value)
            high = figure.value + math.hypot(high - figure.value, source.value - source.low)
        slack = ROUNDING * abs(figure.value)
        rows[name] = {"log": figure.value, "ci95": [low, high], "world": other, "within": low - slack <= other <= high + slack}
    return rows
