"""Names, explanations and formats of a leaderboard's figures, shared by the page and the terminal table."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ...agents.registry import agents

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A figure of a row.

    Attributes:
        metric: its name in `leaderboard.json`.
        judged: the name of its counterpart under the judge grading, where there is one.
        title, short: headings on the page and in the terminal.
        meaning: explanation in one sentence.
        kind: `rate` (shown in percent), `number`, `signed` (three decimals), `price` (four decimals) or `count`.
        higher_is_better: or lower.
        compares: the best of it may be set in bold: a figure on which an agent that achieves nothing does not win.
    """

    metric: str
    title: str
    short: str
    meaning: str
    kind: str
    higher_is_better: bool
    judged: str | None = None
    compares: bool = False


COLUMNS = (
    Column(
        "pass_rate_under_budget",
        "Pass rate in budget",
        "PBC",
        "Share of episodes that pass and overspend no limit of the budget (PBC); agents are ranked by it.",
        "rate",
        True,
        "judged_pass_rate_under_budget",
        True,
    ),
    Column(
        "pass_hat_k",
        "Passes every time",
        "pass^k",
        "Share of tasks that pass within the budget under every one of their seeds (pass^k): what one can rely on.",
        "rate",
        True,
        "judged_pass_hat_k",
        True,
    ),
    Column(
        "cost_per_success",
        "Cost per success",
        "Cost/pass",
        "Price of all episodes, failed ones included, over the number that pass within the budget.",
        "number",
        False,
        "judged_cost_per_success",
        True,
    ),
    Column(
        "fault_robustness",
        "Fault robustness",
        "Robust",
        "Success with these faults over success without any, of the same agent on the same tasks with the same luck.",
        "rate",
        True,
        "judged_fault_robustness",
    ),
    Column(
        "pass_rate",
        "Pass rate",
        "PR",
        "Share of episodes whose answer passes, whatever it cost (PR).",
        "rate",
        True,
        "judged_pass_rate",
        True,
    ),
    Column(
        "average_cost", "Average cost", "AC", "Mean price paid per episode, tools and tokens together (AC).", "number", False
    ),
    Column("tool_cost", "Of it tools", "Tools", "Mean fees of the tools per episode.", "number", False),
    Column(
        "token_cost", "Of it tokens", "Tok. cost", "Mean price of the language model's tokens per episode.", "number", False
    ),
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
        "Task performance weighed against price, averaged over episodes; 1 is a perfect answer at no cost (QoP).",
        "signed",
        True,
        compares=True,
    ),
    Column(
        "regret",
        "Regret",
        "Regret",
        "Quality of plan of the best possible episode in the same world less the agent's, averaged.",
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
    Column(
        "unsupported_answers",
        "Unsupported",
        "Unsup.",
        "Share of episodes whose answer states a value that neither the query nor any observation holds.",
        "rate",
        False,
    ),
)

PLAN_COLUMNS = (
    Column(
        "quality_of_plan",
        "Quality of plan",
        "QoP",
        "Mean of alpha × score - (1 - alpha) × price / 0.567 USD; planners are ranked by it.",
        "signed",
        True,
        compares=True,
    ),
    Column(
        "score",
        "Task score",
        "Score",
        "Mean score of the outputs: similarity of images, shared words of texts; 0 to 1.",
        "signed",
        True,
    ),
    Column(
        "average_cost",
        "Price",
        "Price",
        "Mean price of the plan's tools in USD, by time and memory at the input's size.",
        "price",
        False,
    ),
    Column(
        "average_seconds",
        "Seconds",
        "Sec.",
        "Simulated time of the plan's longest path.",
        "number",
        False,
    ),
    Column(
        "average_seconds_one_by_one",
        "One by one",
        "In turn",
        "Mean simulated time of the same tools run one after another.",
        "number",
        False,
    ),
    Column("plan_validity", "Valid", "Valid", "Share of answers that are valid plans.", "rate", True),
    Column("pass_rate", "Score of 0.5", "≥ 0.5", "Share of plans that score at least 0.5.", "rate", True),
    Column(
        "regret", "Regret", "Regret", "Quality of the best plan for the sample less the plan's own, averaged.", "signed", False
    ),
    Column(
        "average_tokens", "Tokens", "Tokens", "Mean number of the planner's language-model tokens per plan.", "count", False
    ),
)
_COLUMNS_BY_RANK = {COLUMNS[0].metric: COLUMNS, PLAN_COLUMNS[0].metric: PLAN_COLUMNS}


def columns_of(document: Mapping[str, Any]) -> tuple[Column, ...]:
    """The columns of a leaderboard, the figure that ranks first; those that say nothing about its rows are left out."""
    columns = _COLUMNS_BY_RANK.get(str(document.get("ranked_by")), COLUMNS)
    rows = document.get("rows") or []
    silent = {
        "pass_hat_k": all(len(row.get("pass_hat_k") or ()) < 2 for row in rows),
        "unsupported_answers": all(figure(row, "unsupported_answers") is None for row in rows),
        "cost_per_success": all(figure(row, "cost_per_success") is None for row in rows),
        "fault_robustness": all(figure(row, "fault_robustness") is None for row in rows),
        "tool_cost": not any(figure(row, "token_cost") for row in rows),
        "token_cost": not any(figure(row, "token_cost") for row in rows),
    }
    return tuple(column for column in columns if not silent.get(column.metric, False))


def figure(row: Row, metric: str) -> float | None:
    """The figure of a row, or None where it has none. Of a list (`pass_hat_k`) it is the last."""
    value = row.get(metric)
    if isinstance(value, list) and value:
        value = value[-1]
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
    """Format a figure for display, or a dash if there is none. Rates are in percent, without the sign."""
    if value is None:
        return "–"
    if kind == "rate":
        text = f"{100 * value:.1f}"
    elif kind == "signed":
        text = f"{value:.3f}"
    elif kind == "price":
        text = f"{value:.4f}"
    elif kind == "count":
        text = f"{value:,.0f}"
    else:
        text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.2f}" if abs(value) >= 0.1 or not value else f"{value:.3g}"
    if text.startswith("-") and not text.strip("-0.,"):
        text = text[1:]
    return text.replace("-", "−", 1) if text.startswith("-") else text


def is_simulated(row: Row) -> bool:
    """Return whether the row's language model is simulated, so that its figures say nothing about a real model."""
    return str(row.get("model") or "").lower().startswith("simulated")


def is_reference(row: Row) -> bool:
    """Return whether the row is a bound instead of a competitor: its agent is one of ours that reads the world."""
    return str(row.get("agent") or "") in _privileged()


@lru_cache(maxsize=1)
def _privileged() -> frozenset[str]:
    return frozenset(entry.name for entry in agents() if entry.privileged)


def void_reasons(rows: Iterable[Row]) -> list[str]:
    """Count what the infrastructure said of the rows' void episodes, the most frequent first."""
    counts: Counter[str] = Counter()
    for row in rows:
        counts.update({str(reason): int(count) for reason, count in (row.get("void_reasons") or {}).items()})
    return [reason for reason, _ in counts.most_common()]


MAX_REASONS = 3  # of void episodes, on a board


def is_void(row: Row) -> bool:
    """The infrastructure broke every episode of the row: nothing can be said of its agent."""
    return bool(row.get("void_episodes")) and row.get("void_episodes") == row.get("episodes")


def is_ranked(row: Row, document: Mapping[str, Any]) -> bool:
    """The row has a rank: it is no bound, and some of its episodes were played."""
    return not is_reference(row) and not is_void(row)


def best(rows: Iterable[Row], column: Column, metric: str) -> float | None:
    """The best figure among the competitors; None in a column on which achieving nothing would win."""
    rivals = (row for row in rows if not is_reference(row) and column.compares)
    figures = [value for row in rivals if (value := figure(row, metric)) is not None]
    if not figures:
        return None
    return max(figures) if column.higher_is_better else min(figures)


def plain(text: object) -> str:
    """Remove control characters from a name, so that it cannot move a terminal's cursor or break a line."""
    return "".join(c if c.isprintable() else "�" for c in str(text))
