"""The leaderboard in a terminal."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..metrics import GRADINGS, budget_order, rank_rows
from .metric_columns import (
    COLUMNS,
    Column,
    Row,
    best,
    budget_label,
    figure,
    interval,
    is_reference,
    is_simulated,
    plain,
    written,
)

WIDE, NARROW = 100, 88
_PERCENT = {"rate": " %"}


def print_table(leaderboard: Mapping[str, Any], console: Console, *, intervals: bool = False) -> None:
    """Print the rows of a leaderboard, one block a budget, best first and the best figure of each column bold.

    Fits 100 columns; below, the columns that matter least are left out. The oracle is a bound, not a competitor: it has no rank
    and is never bold.

    Args:
        leaderboard: the content of `leaderboard.json`.
        console: where to; its width decides which columns are shown.
        intervals: add half the width of the 95 % interval to each pass rate and cost.
    """
    rows = leaderboard.get("rows") or []
    grading = next((row["grading"] for row in rows if row.get("grading") in GRADINGS), GRADINGS[0])
    ranked = rank_rows(rows, grading)
    columns = _columns(console.width, intervals)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("agent", no_wrap=True, overflow="ellipsis", min_width=12)
    for column in columns:
        table.add_column(f"{column.short}{_PERCENT.get(column.kind, '')}", justify="right", no_wrap=True)
    for number, (_, group) in enumerate(itertools.groupby(ranked, key=lambda row: budget_order(row.get("budget") or {}))):
        if number:
            table.add_section()
        _add_budget(table, list(group), columns, grading, intervals)
    console.print(_title(leaderboard, rows, grading), soft_wrap=False)
    console.print(table if rows else "no rows yet")
    for note in _notes(rows, columns):
        console.print(Text(note, style="dim"))


def _columns(width: int, intervals: bool) -> tuple[Column, ...]:
    if intervals:
        return tuple(c for c in COLUMNS if c.metric not in ("average_seconds", "average_tokens", "tool_error_rate", "regret"))
    if width >= WIDE:
        return COLUMNS
    left_out = ("tool_error_rate",) if width >= NARROW else ("tool_error_rate", "average_seconds", "average_tokens")
    return tuple(column for column in COLUMNS if column.metric not in left_out)


def _add_budget(table: Table, rows: list[Row], columns: tuple[Column, ...], grading: str, intervals: bool) -> None:
    table.add_row("", Text(budget_label(rows[0].get("budget")), style="italic"), *[""] * len(columns))
    rank = 0
    for row in rows:
        reference = is_reference(row)
        rank += not reference
        name = Text(plain(row.get("agent")), style="dim" if reference else "")
        if is_simulated(row):
            name.append(" †", style="dim")
        elif row.get("model"):
            name.append(f" {plain(row['model'])}", style="dim")
        cells = []
        for column in columns:
            metric = column.judged if grading == "judge" and column.judged else column.metric
            value = figure(row, metric)
            is_best = value is not None and not reference and value == best(rows, column, metric)
            cell = Text(written(value, column.kind), style="bold" if is_best else "dim" if reference else "")
            ends = interval(row, metric) if intervals and column.kind in ("rate", "number") else None
            if ends:
                cell.append(f" ±{written((ends[1] - ends[0]) / 2, column.kind)}", style="dim")
            cells.append(cell)
        table.add_row("–" if reference else str(rank), name, *cells)


def _title(leaderboard: Mapping[str, Any], rows: list[Row], grading: str) -> Text:
    episodes = sorted({row.get("episodes", 0) for row in rows})
    counted = (
        f"{episodes[0]} episodes a row"
        if len(episodes) == 1
        else f"{episodes[0]} to {episodes[-1]} episodes a row"
        if rows
        else ""
    )
    parts = [f"suite {leaderboard.get('suite')}", f"seed {leaderboard.get('seed')}", counted, f"{grading} grading"]
    return Text("costgym leaderboard", style="bold").append("  " + plain(" · ".join(p for p in parts if p)), style="dim")


def _notes(rows: list[Row], columns: tuple[Column, ...]) -> list[str]:
    wanted = {
        "PBC": "PBC pass rate within the budget (ranks)",
        "PR": "PR pass rate",
        "AC": "AC average cost",
        "RFBC": "RFBC over budget",
        "QoP": "QoP quality of plan",
    }
    notes = ["; ".join(wanted[c.short] for c in columns if c.short in wanted)] if rows else []
    if any(is_simulated(row) for row in rows):
        notes.append("† a simulated language model: its figures say nothing of a real one")
    if any(is_reference(row) for row in rows):
        notes.append("oracle: knows the realised world; a bound, not ranked")
    void = sum(int(row.get("void_episodes") or 0) for row in rows)
    if void:
        notes.append(f"{void} void episodes (infrastructure failures) are left out of every figure")
    return notes
