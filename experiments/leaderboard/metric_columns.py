"""How the figures of a leaderboard are called, explained and written; the page and the terminal table share it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...simulators.ledger import RESOURCES

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """One figure of a row.

    Attributes:
        metric: its name in `leaderboard.json`.
        judged: the name of its counterpart under the judge grading, where there is one.
        title, short: as the page and the terminal head it.
        meaning: one plain sentence.
        kind: `rate` (shown in percent), `number`, `signed` (three decimals) or `count`.
        higher_is_better: or lower.
    """

    metric: str
    title: str
    short: str
    meaning: str
    kind: str
    higher_is_better: bool
    judged: str | None = None


COLUMNS = (
    Column(
        "pass_rate_under_budget",
        "Pass rate in budget",
        "PBC",
        "Share of episodes that pass and overspend no limit of the budget (PBC); agents are ranked by it.",
        "rate",
        True,
        "judged_pass_rate_under_budget",
    ),
    Column(
        "pass_rate",
        "Pass rate",
        "PR",
        "Share of episodes whose answer passes, whatever it cost (PR).",
        "rate",
        True,
        "judged_pass_rate",
    ),
    Column("average_cost", "Average cost", "AC", "Mean price paid per episode (AC).", "number", False),
    Column(
        "budget_failure_rate",
        "Over budget",
        "RFBC",
        "Share of episodes that fail because a limit of the budget was overspent (RFBC).",
        "rate",
        False,
    ),
    Column(
        "quality_of_plan",
        "Quality of plan",
        "QoP",
        "Task performance weighed against price, averaged over episodes; 1 is a perfect answer for nothing (QoP).",
        "signed",
        True,
    ),
    Column(
        "regret",
        "Regret",
        "Regret",
        "Quality of plan that the best possible episode in the same world has ahead of the agent's, averaged.",
        "signed",
        False,
    ),
    Column("average_seconds", "Seconds", "Sec.", "Mean simulated time per episode, in seconds.", "number", False),
    Column("average_tokens", "Tokens", "Tokens", "Mean number of language-model tokens per episode.", "count", False),
    Column(
        "tool_error_rate",
        "Tool errors",
        "Tool err.",
        "Share of attempted calls that failed through the tool's fault, not the agent's.",
        "rate",
        False,
    ),
)


def figure(row: Row, metric: str) -> float | None:
    """The figure of a row, or None where it has none."""
    value = row.get(metric)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def interval(row: Row, metric: str) -> tuple[float, float] | None:
    """The 95 % interval of a figure, or None where it has none."""
    ends = (row.get("ci95") or {}).get(metric)
    if not isinstance(ends, list | tuple) or len(ends) != 2:
        return None
    low, high = (figure({"end": end}, "end") for end in ends)
    return None if low is None or high is None else (low, high)


def written(value: float | None, kind: str) -> str:
    """A figure as a reader sees it; a dash where there is none. Rates are without their percent sign."""
    if value is None:
        return "–"
    if kind == "rate":
        text = f"{100 * value:.1f}"
    elif kind == "signed":
        text = f"{value:.3f}"
    elif kind == "count":
        text = f"{value:,.0f}"
    else:
        text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.2f}" if abs(value) >= 0.1 or not value else f"{value:.3g}"
    if text.startswith("-") and not text.strip("-0.,"):
        text = text[1:]
    return text.replace("-", "−", 1) if text.startswith("-") else text


def is_simulated(row: Row) -> bool:
    """The row's language model has no weights: its figures say nothing of a real model."""
    return str(row.get("model") or "").lower().startswith("simulated")


def is_reference(row: Row) -> bool:
    """The row knows the realised world: a bound to measure against, never a competitor."""
    return str(row.get("agent") or "").lower().split("+")[0].startswith("oracle")


def budget_label(budget: Mapping[str, float] | None) -> str:
    """A budget in words, for example ``price ≤ 20, seconds ≤ 60``."""
    limits = budget or {}
    named = [name for name in RESOURCES if name in limits] + sorted(name for name in limits if name not in RESOURCES)
    return ", ".join(f"{name} ≤ {limits[name]:,g}" for name in named) or "unlimited"


def best(rows: Iterable[Row], column: Column, metric: str) -> float | None:
    """The best figure among the competitors; an agent without a language model is no example of few tokens."""
    rivals = (row for row in rows if not is_reference(row) and (metric != "average_tokens" or row.get("model")))
    figures = [value for row in rivals if (value := figure(row, metric)) is not None]
    if not figures:
        return None
    return max(figures) if column.higher_is_better else min(figures)


def plain(text: object) -> str:
    """A name without control characters, so that it can neither move a terminal's cursor nor break a line."""
    return "".join(c if c.isprintable() else "�" for c in str(text))
