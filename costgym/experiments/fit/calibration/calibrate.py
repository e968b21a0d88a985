"""Fit a scenario to logged calls, and judge it by simulating what is written.

Two fits are made. The written scenario is fitted to all calls and simulated in the shape of the log; figures that it misses are
named. Another is fitted to the first calls of each tool and simulated beside the last ones, which it has not seen. A log has no
tasks, so the scenario gets generated ones, one for each capability and one for each pair, unless others are given.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from costgym.experiments.fit.calibration import fits
from costgym.experiments.fit.calibration.document import Fit, fit, own_document, read_tasks, toolbench_document, warnings
from costgym.experiments.fit.calibration.fits import episodes_of
from costgym.experiments.fit.calibration.judge import FIGURES, Chain, Figure, compare, figures, simulate
from costgym.experiments.play.call_logs.log import LoggedCall, read_log
from costgym.simulators.errors import ConfigError, DataError, require
from costgym.simulators.files import parse_yaml, write_atomically, yaml_text
from costgym.simulators.scenario import Scenario, parse_scenario

FORMAT = "costgym.calibration/1"
LEAST_CALLS = 20
GAP_S = 3600.0
TEST_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class Calibration:
    """The result of a calibration."""

    scenario: Scenario
    document: dict[str, Any]
    report: dict[str, Any]  # quality of the fit
    logged: dict[str, list[Chain]]  # each tool's calls by episode, in the log; empty for logs without durations
    simulated: dict[str, list[Chain]]  # the same in the written world

    def write(self, path: Path, report: Path | None = None) -> None:
        """Write the scenario, and the report as JSON if a file is given; `pages.world_pages` draws it as a page."""
        tasks = "" if self.report["own_tasks"] else "; the tasks are placeholders"
        write_atomically(path, f"# Fitted to {self.report['calls']} logged calls{tasks}.\n{yaml_text(self.document)}")
        if report is not None:
            write_atomically(report, json.dumps(self.report, indent=1) + "\n")


def calibrate(
    log: Path,
    name: str | None = None,
    least_calls: int | None = None,
    gap_s: float = GAP_S,
    token_price: tuple[float, float] | None = None,
    *,
    prices: Mapping[str, float] | None = None,
    fields: Mapping[str, str] | None = None,
    where: Mapping[str, str] | None = None,
    tasks: Path | None = None,
    hours: tuple[int, int] | None = None,
) -> Calibration:
    """Fit a scenario to a log of real calls, or to a folder of StableToolBench's answers.

    Tools with fewer than `least_calls` executed calls are left out (by default 20, and 1 for answer trees). Where the log names
    no episodes, a pause of `gap_s` seconds ends one. `token_price`, USD per million input and output tokens, is for calls
    without a price; `fields` says where the log's fields are (see `call_logs.expressions`), and `where` which records are read
    (see `read_log`); `tasks` is a YAML file as in a
    scenario's `source.tasks`, None for generated ones; `hours`, such as ``(22, 6)``, keeps the calls that began between these
    hours of the day, in UTC. Raises DataError if the log or the tasks cannot be read or no tool has
    enough calls, and ConfigError if an argument is out of range or a price is given for a tool that the log does not have.
    """
    _check(least_calls, gap_s, hours)
    require("scipy", "train")
    prices = prices or {}
    read = read_log(log, fields, where)
    calls = [_priced(call, token_price, prices) for call in read.calls]
    logged_calls = len(calls)
    if hours is not None:
        calls = [call for call in calls if _began(call, *hours)]
    timed = any(call.latency_s is not None for call in calls)
    by_tool: dict[str, list[LoggedCall]] = defaultdict(list)
    for call in calls:
        by_tool[call.tool].append(call)
    for tool in prices:
        if tool not in by_tool:
            raise ConfigError("--price", f"the log has no tool {tool!r}; it has {', '.join(sorted(by_tool))}")
    least = least_calls if least_calls is not None else LEAST_CALLS if timed else 1
    fitted = _with_enough_calls(by_tool, least, timed, log)
    whole = fit(fitted, gap_s)
    name = name or log.stem or "calibrated"
    document = toolbench_document(name, whole) if read.trees else own_document(name, fitted, whole)
    if tasks is not None and read.trees:
        raise ConfigError("--tasks", "answer trees have tasks of their own")
    if tasks is not None:
        document["source"]["tasks"] = read_tasks(tasks)
    document = parse_yaml(yaml_text(document), "scenario")  # what is judged is what is written, its rounding included
    scenario = parse_scenario(document, "the fitted scenario" if tasks is None else tasks)
    logged = {tool: episodes_of(calls, gap_s) for tool, calls in fitted.items()}
    simulated: dict[str, list[Chain]] = {}
    if not read.trees:
        scenario.build()  # what cannot be played is not written
    if timed:
        simulated = _simulated(document, logged)
    rows = {tool: _tool_report(calls, whole, logged[tool], simulated.get(tool)) for tool, calls in fitted.items()}
    report = {
        "format": FORMAT,
        "calls": len(calls),
        "hours": None if hours is None else {"from": hours[0], "to": hours[1], "share": len(calls) / logged_calls},
        "own_tasks": tasks is not None,
        "records": dict(read.records),
        "left_out": {tool: len(calls) for tool, calls in sorted(by_tool.items()) if tool not in fitted},
        "failures": document["failures"],
        "outages": None if whole.outages is None else asdict(whole.outages),
        "tools": rows,
        "unseen": _unseen(fitted, gap_s, timed),
        "not_reproduced": _misses(rows),
        "warnings": warnings(fitted, whole, document),
    }
    return Calibration(scenario, document, report, logged if timed else {}, simulated)


def _check(least_calls: int | None, gap_s: float, hours: tuple[int, int] | None) -> None:
    if least_calls is not None and least_calls < 1:
        raise ConfigError("--least-calls", f"expected a positive whole number, got {least_calls}")
    if not 0 < gap_s < float("inf"):
        raise ConfigError("--gap", f"expected a positive number of seconds, got {gap_s}")
    if hours is not None and (hours[0] == hours[1] or not all(0 <= hour < 24 for hour in hours)):
        raise ConfigError("--hours", f"expected two different hours from 0 to 23 such as 22,6, got {hours[0]},{hours[1]}")


def _with_enough_calls(
    by_tool: Mapping[str, list[LoggedCall]], least: int, timed: bool, log: Path
) -> dict[str, list[LoggedCall]]:
    """The tools with at least `least` executed calls, in order of their names; DataError where there are none."""
    fitted = {tool: calls for tool, calls in sorted(by_tool.items()) if _usable(calls, timed) >= least}
    if not fitted:
        most = max(by_tool, key=lambda tool: _usable(by_tool[tool], timed))
        problem = f"no tool has {least} executed calls or more (the most: {_usable(by_tool[most], timed)}, of {most!r})"
        raise DataError(log, f"{problem}; log more calls, or pass --least-calls")
    return fitted


def _priced(call: LoggedCall, token_price: tuple[float, float] | None, prices: Mapping[str, float]) -> LoggedCall:
    price = call.price if call.price is not None else prices.get(call.tool)
    if price is None and call.tokens is not None and token_price is not None:
        price = (call.tokens[0] * token_price[0] + call.tokens[1] * token_price[1]) / 1e6
    return replace(call, price=price)


def _began(call: LoggedCall, begin: int, end: int) -> bool:
    """Return whether a call began between two hours of the day; from 22 to 6 goes over midnight."""
    hour = call.started_s / 3600.0 % 24.0
    return begin <= hour < end if begin < end else not end <= hour < begin


def _usable(calls: Sequence[LoggedCall], timed: bool) -> int:
    """Return the executed calls; if the log has durations, at least one of them must have one."""
    executed = sum(call.status in fits.WORKS or call.status in fits.FAILS for call in calls)
    return executed if not timed or len(fits.durations(calls)) else 0


# -- the judgement ----------------------------------------------------------------------------------------------------------


def _simulated(document: Mapping[str, Any], shape: Mapping[str, Sequence[Chain]]) -> dict[str, list[Chain]]:
    """Return the document's calls in the shape of a log, by the log's names of the tools."""
    names = dict(zip(shape, (tool["name"] for tool in document["source"]["tools"]), strict=True))
    simulated_calls = simulate(document, {names[tool]: chains for tool, chains in shape.items()})
    return {tool: simulated_calls[name] for tool, name in names.items()}


def _misses(rows: Mapping[str, Any]) -> list[str]:
    """Return the figures that the written scenario does not reproduce, in words."""
    misses = []
    for tool, row in rows.items():
        for name, figure in row.get("reproduced", {}).items():
            if not figure["within"]:
                low, high = (written(name, end) for end in figure["ci95"])
                world, log = written(name, figure["world"]), written(name, figure["log"])
                misses.append(f"{tool}: {FIGURES[name]} is {log} in the log ({low} to {high}) and {world} in the world")
    return misses


def written(name: str, value: float) -> str:
    """Return a figure of `FIGURES` with its unit."""
    if name in ("success", "failure_after_failure", "refused"):
        return f"{value:.1%}"
    return f"{value:.3g} s" if name.endswith("_s") else f"{value:.3g}"


def _split(calls: Sequence[LoggedCall]) -> tuple[list[LoggedCall], list[LoggedCall]]:
    """Split the calls into the first and the last ones, without cutting an episode that the log names."""
    first = edge = max(1, round(len(calls) * (1 - TEST_SHARE)))
    while edge < len(calls) and calls[edge].episode is not None and calls[edge].episode == calls[edge - 1].episode:
        edge += 1
    edge = edge if edge < len(calls) else first
    return list(calls[:edge]), list(calls[edge:])


def _unseen(tools: dict[str, list[LoggedCall]], gap_s: float, timed: bool) -> dict[str, Any]:
    """Evaluate a fit to the first calls on the last ones, for each tool and in total."""
    parts = {tool: _split(calls) for tool, calls in tools.items()}
    parts = {tool: part for tool, part in parts.items() if _usable(part[0], timed) and any(fits.chains(part[1], gap_s))}
    if not parts:
        return {"tools": {}}
    first = {tool: train for tool, (train, _) in parts.items()}
    fitted = fit(first, gap_s)
    last = {tool: episodes_of(test, gap_s) for tool, (_, test) in parts.items()}
    played = _simulated(own_document("unseen", first, fitted), last) if timed else {}
    rows: dict[str, dict[str, Any]] = {}
    for tool, (train, test) in parts.items():
        chains = list(fits.chains(test, gap_s))
        before, after = figures(episodes_of(train, gap_s)), figures(last[tool])
        world = figures(played[tool], intervals=False) if timed else {"success": before["success"]}
        compared = compare({name: after[name] for name in world}, world, before)
        predicted = compared["success"]["world"]
        chained, alone = fits.outcome_log_likelihood(chains, predicted, *fitted.failures.of(tool))
        rows[tool] = {
            "calls": sum(map(len, chains)),
            "success_predicted": predicted,
            "success": after["success"].value,
            "success_ci95": [after["success"].low, after["success"].high],
            "as_predicted": compared["success"]["within"],
            "figures": compared,
            "outcome_log_likelihood": {"chain": chained, "independent": alone},
        }
    total = sum(row["calls"] for row in rows.values())
    mean = {
        model: sum(row["outcome_log_likelihood"][model] * row["calls"] for row in rows.values()) / total
        for model in ("chain", "independent")
    }
    judged_figures = [figure["within"] for row in rows.values() for figure in row["figures"].values()]
    return {
        "calls": total,
        "success_rates_as_predicted": sum(row["as_predicted"] for row in rows.values()) / len(rows),
        "figures": len(judged_figures),
        "figures_as_predicted": sum(judged_figures),
        "outcome_log_likelihood": mean,
        "tools": rows,
    }


def _tool_report(calls: Sequence[LoggedCall], fit: Fit, logged: Sequence[Chain], simulated: Sequence[Chain] | None) -> Any:
    tool = calls[0].tool
    logged_figures: dict[str, Figure] = figures(logged)
    latency, price, stats = fit.latency[tool], fit.price[tool], require("scipy.stats", "train")
    statuses = Counter(call.status.label for call in calls)
    rows = {}
    for label, count in sorted(statuses.items()):
        interval = stats.binomtest(count, len(calls)).proportion_ci(method="wilson")
        rows[label] = {"rate": count / len(calls), "ci95": [float(interval.low), float(interval.high)]}
    return {
        "calls": len(calls),
        "success": logged_figures["success"].value,
        "success_ci95": [logged_figures["success"].low, logged_figures["success"].high],
        **({"reproduced": compare(logged_figures, figures(simulated, intervals=False))} if simulated else {}),
        "reliability": fit.failures.reliability[tool],
        "slip": fit.failures.of(tool)[0],
        "persistence": fit.failures.of(tool)[1],
        "statuses": rows,
        "latency": None
        if latency is None
        else {
            "median_s": latency.median_s,
            "spread": None if latency.quantiles else latency.spread,
            "quantiles": list(latency.quantiles) or None,
            "timeout_s": latency.timeout_s,
        },
        "price": None
        if price is None
        else {
            "model": price.model,
            "fee": price.fee,
            "error": {"flat": price.flat_error, "duration": price.duration_error, "token": price.token_error},
            "per_token": price.per_token,
        },
    }
