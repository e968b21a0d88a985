"""Summarise repeated runs under faults: success, cost per success, and how often k runs in a row succeed.

The reliability surface R(k, fault rate, budget) is the chance that all of k repeated runs of a task succeed, at a factor on
the scenario's failures and under a budget; R(1, ...) is the success rate.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ....simulators.ledger import Budget
from ....simulators.status import Status
from ...play.statistics import all_of_k, wilson
from .call_log import Run


def reliability(runs: Sequence[Run]) -> dict[str, Any]:
    """Sum up the runs of some logs.

    Args:
        runs: From `call_log.read_runs`. Runs of one task under the same conditions count as repetitions of each other.

    Returns:
        Plain data: `surface`, with a row for each scenario, factor on failures and budget, and `tools`, with a row for each
        tool under each. Shares have intervals at 95 %: Wilson's, whose k-th power is R's where there is one task; with more
        tasks, R's is Wilson's over tasks.
    """
    groups: dict[tuple[str, float, str], list[Run]] = {}
    for run in runs:
        groups.setdefault(_condition(run), []).append(run)
    ordered = sorted(groups.items())
    return {
        "runs": len(runs),
        "without_verdict": [run.name for run in runs if run.success is None],
        "unfinished": [run.name for run in runs if run.reason is None],
        "surface": [_row(condition, members) for condition, members in ordered],
        "tools": [row for condition, members in ordered for row in _tools(condition, members)],
    }


def _condition(run: Run) -> tuple[str, float, str]:
    scenario, faults = run.settings.get("scenario"), run.settings.get("faults")
    factor = float(faults) if faults is not None else 1.0 if scenario is not None else 0.0
    return str(scenario or "as it is"), factor, str(Budget.from_mapping(run.settings.get("budget") or {}))


def _named(condition: tuple[str, float, str]) -> dict[str, Any]:
    return {"scenario": condition[0], "faults": condition[1], "budget": condition[2]}


def _row(condition: tuple[str, float, str], runs: Sequence[Run]) -> dict[str, Any]:
    calls = [call for run in runs for call in run.calls]
    judged = [run for run in runs if run.success is not None]
    passed = sum(bool(run.success) for run in judged)
    spent = sum(run.price for run in judged)
    faulty = sum(_imposed(call) for call in calls)
    return {
        **_named(condition),
        "runs": len(runs),
        "judged": len(judged),
        "calls": len(calls),
        "fault_rate": _share(faulty, len(calls)),
        "success": _share(passed, len(judged)),
        "price_per_run": spent / len(judged) if judged else None,
        "price_per_success": spent / passed if passed else None,
        "calls_per_run": len(calls) / len(runs),
        "tasks": len({run.settings.get("task") for run in judged}),
        "reliability": _surface(judged),
    }


def _surface(judged: Sequence[Run]) -> list[dict[str, Any]]:
    """R(k) for each k up to the number of runs that every task has."""
    tasks: dict[Any, list[bool]] = {}
    for run in judged:
        tasks.setdefault(run.settings.get("task"), []).append(bool(run.success))
    found = []
    for k in range(1, min(map(len, tasks.values()), default=0) + 1):
        value = sum(all_of_k(sum(passes), len(passes), k) for passes in tasks.values()) / len(tasks)
        if len(tasks) == 1:
            (passes,) = tasks.values()
            low, high = (end**k for end in wilson(sum(passes) / len(passes), len(passes)))
        else:
            low, high = wilson(value, len(tasks))
        found.append({"k": k, "value": value, "ci95": [low, high]})
    return found


def _tools(condition: tuple[str, float, str], runs: Sequence[Run]) -> list[dict[str, Any]]:
    calls: dict[str, list[Any]] = {}
    for run in runs:
        for call in run.calls:
            calls.setdefault(str(call["tool"]), []).append(call)
    return [
        {
            **_named(condition),
            "tool": tool,
            "calls": len(found),
            "ok": _share(sum(call.get("status") == "ok" for call in found), len(found)),
            "statuses": dict(sorted(Counter(str(call.get("status")) for call in found).items())),
            "price": sum(float(call.get("price") or 0.0) for call in found),
        }
        for tool, found in sorted(calls.items())
    ]


def _imposed(call: Any) -> bool:
    """Whether the scenario, and not the tool, made a call fail; a budget that is used up does not count."""
    imposed = call.get("imposed")
    return imposed is not None and imposed not in (Status.OK.label, Status.OVER_BUDGET.label, Status.CANCELLED.label)


def _share(count: int, total: int) -> dict[str, Any] | None:
    if not total:
        return None
    return {"value": count / total, "ci95": list(wilson(count / total, total))}
