"""Fit a scenario to logged calls, and measure how well it fits.

The fit is evaluated on the last part of each tool's calls, which it has not seen; the written scenario is then fitted to all
calls. A log has no tasks, so the scenario gets generated ones, one for each capability and one for each pair; replace them by
your own.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from ...simulators.draws import stable_integer
from ...simulators.errors import ConfigError, DataError, require
from ...simulators.pricing import CPU_RATE, TIER_MB
from ...simulators.scenario import Scenario, parse_scenario
from ...simulators.status import Status
from ..files import write_atomically
from . import fits
from .log import LoggedCall, read_log

FORMAT = "costgym.calibration/1"
LEAST_CALLS = 20
GAP_S = 3600.0
TEST_SHARE = 0.2
RESAMPLES = 1000
OFFERED = 16
"""Greatest number of candidate tools in a task."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """The result of a calibration.

    Attributes:
        scenario: the fitted world.
        document: the scenario's YAML document, as plain data.
        report: quality of the fit.
    """

    scenario: Scenario
    document: dict[str, Any]
    report: dict[str, Any]

    def write(self, path: Path, report: Path | None = None) -> None:
        """Write the scenario, and the report if a file is given."""
        text = yaml.safe_dump(self.document, sort_keys=False, allow_unicode=True, width=120)
        write_atomically(path, f"# Fitted to {self.report['calls']} logged calls; the tasks are placeholders.\n{text}")
        if report is not None:
            write_atomically(report, json.dumps(self.report, indent=1) + "\n")


def calibrate(
    log: Path,
    name: str | None = None,
    least_calls: int | None = None,
    gap_s: float = GAP_S,
    token_price: tuple[float, float] | None = None,
) -> Calibration:
    """Fit a scenario to a log of real calls, or to a folder of StableToolBench's answers.

    Args:
        log: see `calibration_log`.
        name: of the scenario; the file's by default.
        least_calls: fewest calls of a tool; tools with fewer are left out. By default 20, and 1 for answer trees.
        gap_s: if the log names no episodes, a pause of this length, seconds, ends one.
        token_price: USD per million input and output tokens, for logs without prices.

    Raises:
        DataError: the log cannot be read, or no tool in it has enough calls.
        ConfigError: an argument is out of range.
        MissingExtra: SciPy is not installed.
    """
    if least_calls is not None and least_calls < 1:
        raise ConfigError("--least-calls", f"expected a positive whole number, got {least_calls}")
    if not 0 < gap_s < float("inf"):
        raise ConfigError("--gap", f"expected a positive number of seconds, got {gap_s}")
    require("scipy", "train")
    calls = [_priced(call, token_price) for call in read_log(log)]
    timed = any(call.latency_s is not None for call in calls)
    least = least_calls if least_calls is not None else LEAST_CALLS if timed else 1
    by_tool: dict[str, list[LoggedCall]] = defaultdict(list)
    for call in calls:
        by_tool[call.tool].append(call)
    kept = {tool: found for tool, found in sorted(by_tool.items()) if _usable(found, timed) >= least}
    if not kept:
        most = max(by_tool, key=lambda tool: _usable(by_tool[tool], timed))
        problem = f"no tool has {least} executed calls or more (the most: {_usable(by_tool[most], timed)}, of {most!r})"
        raise DataError(log, f"{problem}; log more calls, or pass --least-calls")
    whole = _fit(kept, gap_s)
    name = name or log.stem or "calibrated"
    document = _own(name, kept, whole) if timed else _toolbench(name, whole)
    scenario = parse_scenario(document, "the fitted scenario")
    if timed:
        scenario.build()  # what cannot be played is not written
    report = {
        "format": FORMAT,
        "calls": len(calls),
        "left_out": {tool: len(found) for tool, found in sorted(by_tool.items()) if tool not in kept},
        "failures": document["failures"],
        "tools": {tool: _tool_report(found, whole, gap_s) for tool, found in kept.items()},
        "unseen": _unseen(kept, gap_s),
        "warnings": _warnings(kept, whole, document),
    }
    return Calibration(scenario, document, report)


def _priced(call: LoggedCall, token_price: tuple[float, float] | None) -> LoggedCall:
    if call.price is not None or call.tokens is None or token_price is None:
        return call
    return replace(call, price=(call.tokens[0] * token_price[0] + call.tokens[1] * token_price[1]) / 1e6)


def _usable(calls: Sequence[LoggedCall], timed: bool) -> int:
    """The executed calls; if the log has durations, at least one of them must have one."""
    executed = sum(call.status in fits.WORKS or call.status in fits.FAILS for call in calls)
    return executed if not timed or len(fits.durations(calls)) else 0


# -- the fit --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Fit:
    latency: dict[str, fits.LatencyFit | None]
    price: dict[str, fits.PriceFit | None]
    failures: fits.FailureFit
    slow: dict[str, float]


def _fit(tools: dict[str, list[LoggedCall]], gap_s: float) -> _Fit:
    latency = {tool: fits.fit_latency(calls) for tool, calls in tools.items()}
    slow = {tool: found.slow_timeouts for tool, found in latency.items() if found is not None}
    chains = {tool: list(fits.chains(calls, gap_s)) for tool, calls in tools.items()}
    price = {tool: fits.fit_price(calls) for tool, calls in tools.items()}
    return _Fit(latency, price, fits.fit_failures(chains, slow), slow)


def _split(calls: Sequence[LoggedCall]) -> tuple[list[LoggedCall], list[LoggedCall]]:
    """Split the calls into the first and the last ones, without cutting an episode that the log names."""
    edge = max(1, round(len(calls) * (1 - TEST_SHARE)))
    while edge < len(calls) and calls[edge].episode is not None and calls[edge].episode == calls[edge - 1].episode:
        edge += 1
    if edge >= len(calls):
        edge = max(1, round(len(calls) * (1 - TEST_SHARE)))
    return list(calls[:edge]), list(calls[edge:])


def _unseen(tools: dict[str, list[LoggedCall]], gap_s: float) -> dict[str, Any]:
    """Evaluate a fit to the first calls on the last ones, for each tool and in total."""
    parts = {tool: _split(calls) for tool, calls in tools.items()}
    parts = {tool: part for tool, part in parts.items() if _usable(part[0], False) and _usable(part[1], False)}
    if not parts:
        return {"tools": {}}
    fit = _fit({tool: train for tool, (train, _) in parts.items()}, gap_s)
    rows: dict[str, dict[str, Any]] = {}
    for tool, (train, test) in parts.items():
        chains = list(fits.chains(test, gap_s))
        predicted, *told = success_interval(list(fits.chains(train, gap_s)))
        rate, low, high = success_interval(chains)
        worse, better = (predicted - told[0], high - rate), (told[1] - predicted, rate - low)
        room = math.hypot(*(worse if rate < predicted else better))
        chained, alone = fits.outcome_log_likelihood(chains, predicted, fit.failures)
        row: dict[str, Any] = {
            "calls": sum(map(len, chains)),
            "success_predicted": predicted,
            "success": rate,
            "success_ci95": [low, high],
            "as_predicted": abs(rate - predicted) <= room,
            "outcome_log_likelihood": {"chain": chained, "independent": alone},
        }
        seen, unseen = fits.durations(train), fits.durations(test)
        if len(seen) and len(unseen):
            row["latency"] = fits.judge_latency(seen, unseen)
        rows[tool] = row
    total = sum(row["calls"] for row in rows.values())
    mean = {
        model: sum(row["outcome_log_likelihood"][model] * row["calls"] for row in rows.values()) / total
        for model in ("chain", "independent")
    }
    found: dict[str, Any] = {
        "calls": total,
        "success_rates_as_predicted": sum(row["as_predicted"] for row in rows.values()) / len(rows),
        "outcome_log_likelihood": mean,
    }
    judged = [row["latency"] for row in rows.values() if "latency" in row]
    if judged:
        found["latency_ks_median"] = float(np.median([each["ks"] for each in judged]))
        tested = [each["ks_p"] for each in judged if each["ks_p"] is not None]
        found["latency_rejected_at_5_percent"] = sum(p < 0.05 for p in tested) / max(1, len(tested))
        found["latency_best_family"] = dict(Counter(each["best"] for each in judged).most_common())
    return {**found, "tools": rows}


def success_interval(chains: Sequence[Sequence[Status]]) -> tuple[float, float, float]:
    """The share of successful calls, with a 95 % interval.

    Calls of one episode are correlated, so the bootstrap resamples episodes; with fewer than five it is Wilson's interval.
    """
    well = np.array([sum(status in fits.WORKS for status in chain) for chain in chains])
    size = np.array([len(chain) for chain in chains])
    rate = float(well.sum() / size.sum())
    wilson = require("scipy.stats", "train").binomtest(int(well.sum()), int(size.sum())).proportion_ci(method="wilson")
    if len(chains) < 5 or rate in (0.0, 1.0):
        return rate, float(wilson.low), float(wilson.high)
    drawn = np.random.default_rng(0).integers(len(chains), size=(RESAMPLES, len(chains)))
    low, high = np.percentile(well[drawn].sum(1) / size[drawn].sum(1), [2.5, 97.5])
    return rate, min(float(low), float(wilson.low)), max(float(high), float(wilson.high))


def _tool_report(calls: Sequence[LoggedCall], fit: _Fit, gap_s: float) -> dict[str, Any]:
    tool = calls[0].tool
    rate, low, high = success_interval(list(fits.chains(calls, gap_s)))
    latency, price, stats = fit.latency[tool], fit.price[tool], require("scipy.stats", "train")
    statuses = Counter(call.status.label for call in calls)
    rows = {}
    for label, count in sorted(statuses.items()):
        interval = stats.binomtest(count, len(calls)).proportion_ci(method="wilson")
        rows[label] = {"rate": count / len(calls), "ci95": [float(interval.low), float(interval.high)]}
    return {
        "calls": len(calls),
        "success": rate,
        "success_ci95": [low, high],
        "reliability": fit.failures.reliability[tool],
        "statuses": rows,
        "latency": None
        if latency is None
        else {"median_s": latency.median_s, "spread": latency.spread, "timeout_s": latency.timeout_s},
        "price": None
        if price is None
        else {
            "model": price.model,
            "fee": price.fee,
            "error": {"flat": price.flat_error, "duration": price.duration_error, "token": price.token_error},
            "per_token": price.per_token,
        },
    }


# -- the scenario ---------------------------------------------------------------------------------------------------------


def _round(value: float) -> float:
    """Round to six significant digits, more than a log can determine."""
    return float(f"{value:.6g}")


def _failures(fit: fits.FailureFit) -> dict[str, Any]:
    reliabilities = list(fit.reliability.values())
    return {
        "usable": _round(float(np.mean(reliabilities))),
        "slip": _round(fit.slip),
        "persistence": _round(fit.persistence),
        "sticky": _round(fit.sticky),
        "kinds": fit.kinds,
    }


def _toolbench(name: str, fit: _Fit) -> dict[str, Any]:
    return {
        "name": name,
        "description": "ToolBench's queries with failures fitted to answer trees; pass --data FOLDER.",
        "source": {"kind": "toolbench"},
        "failures": _failures(fit.failures),
    }


def _own(name: str, tools: dict[str, list[LoggedCall]], fit: _Fit) -> dict[str, Any]:
    names = _names(list(tools))
    memory = _memory(fit)
    listed = [_tool(tool, names[tool], calls, fit, memory) for tool, calls in tools.items()]
    fees = [price.fee for price in fit.price.values() if price is not None]
    told = [price.failures_free for tool, price in fit.price.items() if price is not None and not _never(tools[tool])]
    free_failures = bool(told) and all(told)
    document: dict[str, Any] = {
        "name": name,
        "description": f"Fitted to {sum(map(len, tools.values()))} logged calls of {len(tools)} tools.",
        "source": {"kind": "own", "tools": listed, "tasks": _tasks(listed)},
        "pricing": "flat" if memory is None else "faas",
        "bill_failures": not free_failures,
        "failures": {**_failures(fit.failures), "rate_limited_share": 0.0, "quota_share": 0.0},
        "currency": "USD",
    }
    if fees and max(fees) > 0:
        document["budget"] = {"price": _round(6 * float(np.mean(fees)))}
        document["max_price"] = document["budget"]["price"]
    else:
        document["budget"] = {"calls": 12.0}
    return document


def _never(calls: Sequence[LoggedCall]) -> bool:
    """Whether no failure was executed, in which case the price of a failure is unknown."""
    return not any(call.status in fits.FAILS for call in calls)


def _names(tools: Sequence[str]) -> dict[str, str]:
    """Unique names that are valid as function names for a model."""
    found: dict[str, str] = {}
    for tool in tools:
        name = re.sub(r"[^A-Za-z0-9_.-]+", "_", tool).strip("_")[:60] or "tool"
        number = 2
        base = name
        while name in found.values():
            name, number = f"{base}_{number}", number + 1
        found[tool] = name
    return found


def _tool(tool: str, name: str, calls: Sequence[LoggedCall], fit: _Fit, memory: dict[str, float] | None) -> dict[str, Any]:
    latency, price = fit.latency[tool], fit.price[tool]
    assert latency is not None
    longest = float(fits.durations(calls).max())
    rate = fits.success_rate([[call.status for call in calls if call.status in fits.WORKS | fits.FAILS]])
    profile: dict[str, Any] = {
        "latency_s": _round(latency.median_s),
        "latency_spread": _round(latency.spread),
        "timeout_s": _round(latency.timeout_s if latency.timeout_s is not None else max(30.0, 4 * longest)),
        "reliability": _round(fit.failures.reliability[tool]),
        "advertised_success": _round(rate),
        "advertised_latency_s": _round(latency.median_s),
    }
    if memory is not None:
        profile["cpu_cons_mb"] = _round(memory[tool])
    else:
        profile["fee"] = _round(price.fee) if price is not None else 0.0
    if latency.cold_start_s:
        profile["cold_start_s"] = _round(latency.cold_start_s)
        if latency.keep_alive_s is not None:
            profile["keep_alive_s"] = _round(latency.keep_alive_s)
    limit = fits.fit_rate_limit(calls)
    if limit is not None:
        profile["rate_limit"], profile["window_s"] = limit
    about = dict(next((call.about for call in calls if call.about), ()))
    return {"name": name, "capability": about.pop("capability", name), **about, "profile": profile}


def _memory(fit: _Fit) -> dict[str, float] | None:
    """Memory at which pay-per-use pricing gives each tool's price by duration; None if prices do not depend on duration."""
    found: dict[str, float] = {}
    for tool, price in fit.price.items():
        if price is None or price.model != "duration" or abs(price.base) > 0.1 * price.fee:
            return None
        per_ms = price.per_s / 1000.0
        edges = pairwise((0.0, *TIER_MB[:-1], float("inf")))
        sizes = [per_ms / rate for (low, high), rate in zip(edges, CPU_RATE, strict=True) if low < per_ms / rate <= high]
        if not sizes:
            return None
        found[tool] = sizes[0]
    return found or None


def _tasks(tools: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Make a task for each capability and one for each pair."""
    capabilities = list(dict.fromkeys(str(tool["capability"]) for tool in tools))
    needs = {name: {"capability": name, "fact": f"code {stable_integer(0, 'fact', name) % 10**6:06d}"} for name in capabilities}
    wanted = [[name] for name in capabilities]
    if len(capabilities) > 1:
        wanted += [[a, b] for a, b in pairwise([*capabilities, capabilities[0]])][: None if len(capabilities) > 2 else 1]
    tasks = []
    for number, names in enumerate(wanted):
        offered = [tool["name"] for tool in tools if tool["capability"] in names]
        others = [tool["name"] for tool in tools if tool["name"] not in offered]
        turn = number % max(1, len(others))
        offered += (others[turn:] + others[:turn])[: max(0, OFFERED - len(offered))]
        query = f"What does {' and what does '.join(name.replace('_', ' ') for name in names)} say?"
        task: dict[str, Any] = {"query": query, "needs": [needs[name] for name in names]}
        if len(offered) < len(tools):
            task["tools"] = offered
        tasks.append(task)
    return tasks


def _warnings(tools: dict[str, list[LoggedCall]], fit: _Fit, document: dict[str, Any]) -> list[str]:
    """Warnings about properties of the log that the scenario cannot express."""
    found = []
    for tool, price in fit.price.items():
        if price is not None and document.get("pricing") == "flat" and price.flat_error > 0.1:
            better = {"duration": "by duration", "token": "by token"}.get(price.model, "otherwise")
            found.append(
                f"{tool}: its price varies ({price.flat_error:.0%} around the mean, {better}); the scenario has the mean"
            )
    for tool, calls in tools.items():
        if document.get("source", {}).get("kind") == "own" and fit.price[tool] is None:
            found.append(f"{tool}: the log has no price; the scenario has 0")
        if fits.fit_rate_limit(calls) is None and any(call.status is Status.RATE_LIMITED for call in calls):
            found.append(f"{tool}: rate limits were met, but no window fits them")
    return found
