"""The scenario's document: what was fitted to a log, written as plain data."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from costgym.experiments.fit.calibration import fits
from costgym.experiments.fit.calibration.stationary import Outages, find_outages, hidden_structure
from costgym.experiments.play.call_logs.log import LoggedCall, callable_names
from costgym.simulators.draws import stable_integer
from costgym.simulators.errors import DataError
from costgym.simulators.files import read_yaml
from costgym.simulators.pricing.calls import CPU_RATE, TIER_MB
from costgym.simulators.status import Status

OFFERED = 16
"""Greatest number of candidate tools in a task."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Fitted parameters of some calls, by tool, and the outages that tools share."""

    latency: dict[str, fits.LatencyFit | None]
    price: dict[str, fits.PriceFit | None]
    failures: fits.FailureFit
    outages: Outages | None


def fit(tools: dict[str, list[LoggedCall]], gap_s: float) -> Fit:
    """Fit latencies, prices and failures to the calls of each tool."""
    outages = find_outages(tools, gap_s)
    tools = tools if outages is None else outages.without(tools)
    latency = {tool: fits.fit_latency(calls) for tool, calls in tools.items()}
    slow = {tool: speed.slow_timeouts for tool, speed in latency.items() if speed is not None}
    chains = {tool: list(fits.chains(calls, gap_s)) for tool, calls in tools.items()}
    price = {tool: fits.fit_price(calls) for tool, calls in tools.items()}
    return Fit(latency, price, fits.fit_failures(chains, slow), outages)


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


def toolbench_document(name: str, fit: Fit) -> dict[str, Any]:
    return {
        "name": name,
        "description": "ToolBench's queries with failures fitted to answer trees; pass --data FOLDER.",
        "source": {"kind": "toolbench"},
        "failures": _failures(fit.failures),
    }


def own_document(name: str, tools: dict[str, list[LoggedCall]], fit: Fit) -> dict[str, Any]:
    names = callable_names(list(tools))
    memory = _memory(fit)
    listed = [_tool(tool, names[tool], calls, fit, memory) for tool, calls in tools.items()]
    fees = [price.fee for price in fit.price.values() if price is not None]
    failed = {tool for tool, calls in tools.items() if any(call.status in fits.FAILS for call in calls)}
    free_of_charge = [price.failures_free for tool, price in fit.price.items() if price is not None and tool in failed]
    free_failures = bool(free_of_charge) and all(free_of_charge)
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
    if (outages := fit.outages) is not None:
        shared = {} if len(outages.tools) == len(tools) else {"tools": [names[tool] for tool in outages.tools]}
        times = {"every_s": _round(outages.every_s), "lasts_s": _round(outages.lasts_s)}
        document["failures"]["bursts"] = {**times, **shared, "under_way": True}
    return document


def read_tasks(path: Path) -> list[Any]:
    """Read a YAML list of tasks, or `tasks: [...]`, which the scenario checks; raises DataError if it is no such file."""
    document = read_yaml(path)
    tasks = document.get("tasks") if isinstance(document, dict) else document
    if not isinstance(tasks, list) or not tasks:
        raise DataError(path, "expected a list of tasks, each with `query` and `needs`")
    return tasks


def _tool(tool: str, name: str, calls: Sequence[LoggedCall], fit: Fit, memory: dict[str, float] | None) -> dict[str, Any]:
    latency, price = fit.latency[tool], fit.price[tool]
    rate = fits.success_rate([[call.status for call in calls if call.status in fits.WORKS | fits.FAILS]])
    profile = {
        **({} if latency is None else _durations(latency, float(fits.durations(calls).max()))),
        "reliability": _round(fit.failures.reliability[tool]),
        "advertised_success": _round(rate),
        **({} if latency is None else {"advertised_latency_s": _round(latency.median_s)}),
    }
    if tool in fit.failures.by_tool:
        profile["slip"], profile["persistence"] = map(_round, fit.failures.by_tool[tool])
    if memory is not None:
        profile["cpu_cons_mb"] = _round(memory[tool])
    else:
        profile["fee"] = _round(price.fee) if price is not None else 0.0
    if latency is not None and latency.cold_start_s:
        profile["cold_start_s"] = _round(latency.cold_start_s)
        if latency.keep_alive_s is not None:
            profile["keep_alive_s"] = _round(latency.keep_alive_s)
    limit = fits.fit_rate_limit(calls)
    if limit is not None:
        profile["rate_limit"], profile["window_s"] = limit
    about = dict(next((call.about for call in calls if call.about), ()))
    return {"name": name, "capability": about.pop("capability", name), **about, "profile": profile}


def _durations(latency: fits.LatencyFit, longest: float) -> dict[str, Any]:
    shape = (
        {"latency_quantiles": list(map(_round, latency.quantiles))}
        if latency.quantiles
        else {"latency_spread": _round(latency.spread)}
    )
    return {
        "latency_s": _round(latency.median_s),
        **shape,
        "timeout_s": _round(latency.timeout_s if latency.timeout_s is not None else max(30.0, 4 * longest)),
    }


def _memory(fit: Fit) -> dict[str, float] | None:
    """Return the memory at which pay-per-use pricing gives each tool's price by duration; None if prices do not depend on
    duration."""
    # Pay-per-use prices a second by memory in tiers, so the price of a second is divided by each tier's rate, and the tier
    # whose range holds the result is the tool's.
    sizes_mb: dict[str, float] = {}
    for tool, price in fit.price.items():
        if price is None or price.model != "duration" or abs(price.base) > 0.1 * price.fee:
            return None
        per_ms = price.per_s / 1000.0
        edges = pairwise((0.0, *TIER_MB[:-1], float("inf")))
        sizes = [per_ms / rate for (low, high), rate in zip(edges, CPU_RATE, strict=True) if low < per_ms / rate <= high]
        if not sizes:
            return None
        sizes_mb[tool] = sizes[0]
    return sizes_mb or None


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


def warnings(tools: dict[str, list[LoggedCall]], fit: Fit, document: dict[str, Any]) -> list[str]:
    """Return the warnings about properties of the log that the scenario cannot express."""
    is_own = document.get("source", {}).get("kind") == "own"  # answer trees have no times
    notes = []
    for tool, price in fit.price.items():
        if price is not None and document.get("pricing") == "flat" and price.flat_error > 0.1:
            better = {"duration": "by duration", "token": "by token"}.get(price.model, "otherwise")
            notes.append(
                f"{tool}: its price varies ({price.flat_error:.0%} around the mean, {better}); the scenario has the mean"
            )
    if is_own and all(latency is None for latency in fit.latency.values()):
        notes.append("the log has no durations; the scenario's are 1 s")
    unpriced = [tool for tool in tools if is_own and fit.price[tool] is None]
    if unpriced:
        whose = "" if len(unpriced) == len(tools) else f" of {', '.join(unpriced)}"
        notes.append(f"the log has no prices{whose}; the scenario's are 0")
    for tool, calls in tools.items():
        if fits.fit_rate_limit(calls) is None and any(call.status is Status.RATE_LIMITED for call in calls):
            notes.append(f"{tool}: rate limits were met, but no window fits them")
    return notes + (hidden_structure(tools if fit.outages is None else fit.outages.without(tools)) if is_own else [])
