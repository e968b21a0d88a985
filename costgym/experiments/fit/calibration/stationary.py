"""Find outages that tools share, and test for what the world's models lack: drift, times of day, clients that try again.

A tool's calls are counted in windows of ten minutes, the units of the tests, so that runs of failures are not taken for more.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, groupby, pairwise
from math import comb, log

import numpy as np

from costgym.experiments.fit.calibration.fits import FAILS, WORKS
from costgym.experiments.play.call_logs.log import LoggedCall
from costgym.simulators.errors import require
from costgym.simulators.status import Status

WINDOW_S = 600.0
LEAST = 20
"""Windows without which nothing is tested."""
ALPHA = 0.001
"""Chance of a false warning, of all tests of a kind on a log."""
AGAIN_S, AGAIN_SHARE = 2.0, 0.5
Calls = Mapping[str, Sequence[LoggedCall]]


@dataclass(frozen=True, slots=True)
class Outages:
    """Times at which all calls of several tools fail."""

    tools: tuple[str, ...]  # those that share them
    every_s: float  # mean time between two of them, as in `failures.Bursts`
    lasts_s: float  # mean length of one
    spans: tuple[tuple[float, float], ...]  # start and end of each, in the log's time

    def without(self, tools: Calls) -> dict[str, list[LoggedCall]]:
        """The calls, of which those in an outage have the status of one: they say nothing of the tool itself."""
        return {name: [self._judged(call) if name in self.tools else call for call in calls] for name, calls in tools.items()}

    def _judged(self, call: LoggedCall) -> LoggedCall:
        down = call.status in FAILS and any(begin <= call.started_s <= end for begin, end in self.spans)
        return replace(call, status=Status.OUTAGE) if down else call


def find_outages(tools: Calls, gap_s: float) -> Outages | None:
    """Find the outages of the largest group of tools that fail at the same times; None where there are none.

    An outage is a row of calls of two tools or more that all failed, too long for chance at the share of failures in the log.
    The calls of each tool are in order of time; pauses longer than `gap_s` seconds do not count as observed.
    """
    groups: dict[str, set[str]] = {tool: {tool} for tool in tools}
    for one, other, _ in _together({tool: _shares(calls) for tool, calls in tools.items()}):
        joined = groups[one] | groups[other]
        groups.update(dict.fromkeys(joined, joined))
    group = max(groups.values(), key=len)
    ran = [call for tool in group for call in tools[tool] if call.status in WORKS or call.status in FAILS]
    ran.sort(key=lambda call: call.started_s)
    failed = sum(call.status in FAILS for call in ran)
    if len(group) < 2 or not 0 < failed < len(ran):
        return None
    least = log(ALPHA / len(ran)) / log(failed / len(ran))
    runs = [(well, list(calls)) for well, calls in groupby(ran, lambda call: call.status in WORKS)]
    spans = []
    for index, (well, calls) in enumerate(runs):
        if not well and len(calls) >= least and len({call.tool for call in calls}) > 1:
            # it begins and ends somewhere between the calls that failed and their neighbours
            begin, end = calls[0].started_s, calls[-1].started_s
            before = runs[index - 1][1][-1].started_s if index else begin
            after = runs[index + 1][1][0].started_s if index + 1 < len(runs) else end
            spans.append((begin - min(begin - before, gap_s) / 2, end + min(after - end, gap_s) / 2))
    if not spans:
        return None
    observed = sum(min(b.started_s - a.started_s, gap_s) for a, b in pairwise(ran))
    down = sum(end - begin for begin, end in spans)
    every_s = max(1.0, (observed - down) / len(spans))
    return Outages(tuple(tool for tool in tools if tool in group), every_s, max(1e-3, down / len(spans)), tuple(spans))


def _together(shares: Mapping[str, Mapping[int, float]]) -> Iterator[tuple[str, str, float]]:
    """Pairs of tools that fail at the same times, with the correlation of their successes by window."""
    stats = require("scipy.stats", "train")
    for one, other in combinations(shares, 2):
        both = sorted(shares[one].keys() & shares[other].keys())
        pairs = np.array([[shares[tool][window] for window in both] for tool in (one, other)])
        if len(both) >= LEAST and min(len(set(row)) for row in pairs) > 1:
            test = stats.spearmanr(*pairs)
            if test.statistic > 0 and test.pvalue < ALPHA / comb(len(shares), 2):
                yield one, other, float(test.statistic)


def hidden_structure(tools: Calls) -> list[str]:
    """Say in words what a log holds that the scenario cannot express; `tools` has each tool's calls in order of time."""
    stats = require("scipy.stats", "train")
    shares = {tool: _shares(calls) for tool, calls in tools.items()}
    structure: list[str] = []
    for tool, share in shares.items():
        structure += _times_of_day(tool, share, _medians(tools[tool]), ALPHA / len(tools))
        windows, rates = np.array(sorted(share)), np.array([share[window] for window in sorted(share)])
        if len(windows) >= LEAST and len(set(rates)) > 1:
            half = len(rates) // 2
            if stats.mannwhitneyu(rates[:half], rates[half:]).pvalue < ALPHA / len(tools):
                structure.append(
                    f"{tool}: success drifts, from {rates[:half].mean():.1%} to {rates[half:].mean():.1%}; the world's does not"
                )
        failed = [_soon(a, b) for a, b in pairwise(tools[tool]) if a.status in FAILS]
        worked = [_soon(a, b) for a, b in pairwise(tools[tool]) if a.status in WORKS]
        if len(failed) >= LEAST and np.mean(failed) - np.mean(worked or [False]) > AGAIN_SHARE:
            structure.append(
                f"{tool}: {np.mean(failed):.0%} of the failed calls are tried again at once; each counts as a call"
            )
    for one, other, correlation in _together(shares):
        structure.append(f"{one} and {other} fail at the same times (correlation {correlation:.2f}); in the world they do not")
    return structure


def _times_of_day(tool: str, shares: Mapping[int, float], medians_s: Mapping[int, float], alpha: float) -> Iterator[str]:
    """Say in words at which hours calls of a tool fail more often, or take longer."""
    for what, unit, good in (("success depends", "{:.1%}", shares), ("durations depend", "{:.3g} s", medians_s)):
        sign = 1.0 if good is shares else -1.0  # of durations the longest are the worst
        if (worst := _worst_hours({window: sign * value for window, value in good.items()}, alpha)) is not None:
            mean, begin, end = worst
            span, rest = f"{begin},{end}", f"{end},{begin}"
            yield (
                f"{tool}: {what} on the time of day ({unit.format(sign * mean)} from {begin}:00 to {end}:00); "
                f"a world's does not, but --hours {span} and --hours {rest} fit a world each"
            )


def _worst_hours(values: Mapping[int, float], alpha: float) -> tuple[float, int, int] | None:
    """The mean value in the worst hours of the day, and where these begin and end; None where all hours are alike."""
    windows, rates = np.array(sorted(values)), np.array([values[window] for window in sorted(values)])
    hours, days = (windows * WINDOW_S // 3600.0 % 24.0).astype(int), windows * WINDOW_S // 86_400.0
    # an hour that was met on one day only may as well be that day's
    several = {int(hour): rates[hours == hour] for hour in sorted(set(hours)) if len(set(days[hours == hour])) > 2}
    if len(windows) < LEAST or len(several) < 2 or len(set(np.concatenate(list(several.values())))) < 2:
        return None
    if require("scipy.stats", "train").kruskal(*several.values()).pvalue >= alpha:
        return None
    means = {hour: float(of_hour.mean()) for hour, of_hour in several.items()}
    middle = (min(means.values()) + max(means.values())) / 2
    worst = [min(means, key=means.__getitem__)]
    while means.get((worst[0] - 1) % 24, middle) < middle:
        worst.insert(0, (worst[0] - 1) % 24)
    while means.get((worst[-1] + 1) % 24, middle) < middle:
        worst.append((worst[-1] + 1) % 24)
    return float(np.mean([means[hour] for hour in worst])), worst[0], (worst[-1] + 1) % 24


def _soon(call: LoggedCall, following: LoggedCall) -> bool:
    return following.started_s - call.started_s - (call.latency_s or 0.0) < AGAIN_S


def _shares(calls: Sequence[LoggedCall]) -> dict[int, float]:
    """The share of the calls that succeed, by window."""
    windows: dict[int, list[bool]] = defaultdict(list)
    for call in calls:
        if call.status in WORKS or call.status in FAILS:
            windows[int(call.started_s // WINDOW_S)].append(call.status in WORKS)
    return {window: sum(well) / len(well) for window, well in windows.items()}


def _medians(calls: Sequence[LoggedCall]) -> dict[int, float]:
    """The median duration in seconds of the calls that succeed, by window."""
    windows: dict[int, list[float]] = defaultdict(list)
    for call in calls:
        if call.status in WORKS and call.latency_s is not None:
            windows[int(call.started_s // WINDOW_S)].append(call.latency_s)
    return {window: float(np.median(seconds)) for window, seconds in windows.items()}
