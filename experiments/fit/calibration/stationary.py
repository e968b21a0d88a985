"""Tests for what the world's models lack: drift, times of day, failures that tools share, clients that try again.

A tool's calls are counted in windows of ten minutes, the units of the tests, so that runs of failures are not taken for more.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from math import comb

import numpy as np

from ....simulators.errors import require
from ...play.call_logs.log import LoggedCall
from .fits import FAILS, WORKS

WINDOW_S = 600.0
LEAST = 20
"""Windows without which nothing is tested."""
ALPHA = 0.001
"""Chance of a false warning, of all tests of a kind on a log."""
AGAIN_S, AGAIN_SHARE = 2.0, 0.5


def hidden_structure(tools: Mapping[str, Sequence[LoggedCall]]) -> list[str]:
    """Say in words what a log holds that the scenario cannot express; `tools` has each tool's calls in order of time."""
    stats = require("scipy.stats", "train")
    shares, found = {tool: _shares(calls) for tool, calls in tools.items()}, []
    for tool, share in shares.items():
        windows, rates = np.array(sorted(share)), np.array([share[window] for window in sorted(share)])
        if len(windows) >= LEAST and len(set(rates)) > 1:
            half = len(rates) // 2
            if stats.mannwhitneyu(rates[:half], rates[half:]).pvalue < ALPHA / len(tools):
                found.append(
                    f"{tool}: success drifts, from {rates[:half].mean():.1%} to {rates[half:].mean():.1%}; the world's does not"
                )
            hours, days = windows * WINDOW_S // 3600.0 % 24.0, windows * WINDOW_S // 86_400.0
            # an hour that was met on one day only may as well be that day's
            several = {hour: rates[hours == hour] for hour in sorted(set(hours)) if len(set(days[hours == hour])) > 2}
            varies = len(several) > 1 and len(set(np.concatenate(list(several.values())))) > 1
            if varies and stats.kruskal(*several.values()).pvalue < ALPHA / len(tools):
                worst = min(several, key=lambda hour: float(several[hour].mean()))
                told = f"{several[worst].mean():.1%} from {worst:.0f}:00"
                found.append(f"{tool}: success depends on the time of day ({told}); the world's does not")
        failed = [_soon(a, b) for a, b in pairwise(tools[tool]) if a.status in FAILS]
        worked = [_soon(a, b) for a, b in pairwise(tools[tool]) if a.status in WORKS]
        if len(failed) >= LEAST and np.mean(failed) - np.mean(worked or [False]) > AGAIN_SHARE:
            found.append(f"{tool}: {np.mean(failed):.0%} of the failed calls are tried again at once; each counts as a call")
    for one, other in combinations(shares, 2):
        both = sorted(shares[one].keys() & shares[other].keys())
        pairs = np.array([[shares[tool][window] for window in both] for tool in (one, other)])
        if len(both) >= LEAST and min(len(set(row)) for row in pairs) > 1:
            test = stats.spearmanr(*pairs)
            if test.statistic > 0 and test.pvalue < ALPHA / comb(len(shares), 2):
                found.append(
                    f"{one} and {other} fail at the same times (correlation {test.statistic:.2f}); in the world they do not"
                )
    return found


def _soon(call: LoggedCall, following: LoggedCall) -> bool:
    return following.started_s - call.started_s - (call.latency_s or 0.0) < AGAIN_S


def _shares(calls: Sequence[LoggedCall]) -> dict[int, float]:
    """The share of the calls that succeed, by window."""
    windows: dict[int, list[bool]] = defaultdict(list)
    for call in calls:
        if call.status in WORKS or call.status in FAILS:
            windows[int(call.started_s // WINDOW_S)].append(call.status in WORKS)
    return {window: sum(well) / len(well) for window, well in windows.items()}
