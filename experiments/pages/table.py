"""The leaderboard in a terminal."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..board.conditions import condition_label, rank_rows, row_key
from ..board.metric_columns import (
    COLUMNS,
    MAX_REASONS,
    Column,
    Row,
    best,
    columns_of,
    figure,
    interval,
    is_reference,
    is_simulated,
    is_void,
    plain,
    void_reasons,
    written,
)
from ..board.tracks import TRACKS, track_documents
from ..play.metrics import GRADINGS

WIDEST, WIDE, NARROW = 140, 100, 88
_WIDER = {"tool_cost", "token_cost", "pass_hat_k"}
MAX_INLINE_LABEL = 24  # characters of a condition; longer ones stand above a table of their own
_PERCENT = {"rate": " %"}


def print_table(leaderboard: Mapping[str, Any], console: Console, *, intervals: bool = False) -> None:
    """Print a leaderboard track by track, as `print_track` does."""
    tracks = track_documents(leaderboard)
    for number, track in enumerate(tracks):
        if len(tracks) > 1:
            console.print(Text(f"{chr(10) if number else ''}{TRACKS[track['track']].title}", style="bold underline"))
        print_track(track, console, intervals=intervals)


def print_track(leaderboard: Mapping[str, Any], console: Console, *, intervals: bool = False) -> None:
    """Print the rows of one track, one block a condition, best first and the best figure of each column bold.

    The table fits 100 columns; on a narrower terminal the less important columns are left out. The oracle is an upper bound and
    not a competitor: it has no rank and is never bold.

    Args:
        leaderboard: the content of `leaderboard.json`.
        console: the console to print to; its width determines the columns.
        intervals: add half the width of the 95 % interval to each pass rate and cost.
    """
    rows = leaderboard.get("rows") or []
    grading = next((row["grading"] for row in rows if row.get("grading") in GRADINGS), GRADINGS[0])
    ranked = rank_rows(rows, leaderboard, grading)
    columns = _columns(columns_of(leaderboard), console.width, intervals)
    groups = [list(group) for _, group in itertools.groupby(ranked, key=lambda row: row_key(row, leaderboard))]
    labels = [condition_label(group[0], leaderboard) for group in groups]
    apart = max(map(len, labels), default=0) > MAX_INLINE_LABEL
    console.print(_title(leaderboard, rows, grading), soft_wrap=False)
    table = _table(columns)
    for number, (label, group) in enumerate(zip(labels, groups, strict=True)):
        if apart:
            console.print(Text(f"\n{label}", style="italic"))
            table = _table(columns)
        elif number:
            table.add_section()
        if not apart:
            table.add_row("", Text(label, style="italic"), *[""] * len(columns))
        _add_rows(table, group, columns, grading, intervals)
        if apart:
            console.print(table)
    if not apart:
        console.print(table if rows else "no rows yet")
    for note in _notes(leaderboard, rows, columns):
        console.print(Text(note, style="dim"))


def _table(columns: tuple[Column, ...]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("agent", no_wrap=True, overflow="ellipsis", min_width=12)
    for column in columns:
        table.add_column(f"{column.short}{_PERCENT.get(column.kind, '')}", justify="right", no_wrap=True)
    return table


def _columns(columns: tuple[Column, ...], width: int, intervals: bool) -> tuple[Column, ...]:
    if intervals:
        left_out = {"average_seconds", "average_tokens", "tool_error_rate", "regret", "cost_per_success"} | _WIDER
        return tuple(column for column in columns if column.metric not in left_out)
    if width >= WIDEST:
        return columns
    if width >= WIDE:
        return tuple(column for column in columns if column.metric not in _WIDER)
    left_out = {"tool_error_rate", "average_seconds_one_by_one"} | _WIDER
    if width < NARROW:
        left_out |= {"average_tokens"} | ({"average_seconds"} if columns is COLUMNS else {"pass_rate"})
    return tuple(column for column in columns if column.metric not in left_out)


def _add_rows(table: Table, rows: list[Row], columns: tuple[Column, ...], grading: str, intervals: bool) -> None:
    rank = 0
    for row in rows:
        reference = is_reference(row) or is_void(row)
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


def _notes(leaderboard: Mapping[str, Any], rows: list[Row], columns: tuple[Column, ...]) -> list[str]:
    wanted = {
        "PBC": "PBC pass rate within the budget (ranks)",
        "PR": "PR pass rate",
        "AC": "AC average cost",
        "RFBC": "RFBC over budget",
        "Cost/pass": "Cost/pass price of all episodes over those that pass",
        "QoP": "QoP quality of plan" + (" (ranks)" if columns[0].short == "QoP" else ""),
        "In turn": "In turn: seconds one by one",
    }
    notes = ["; ".join(wanted[c.short] for c in columns if c.short in wanted)] if rows else []
    if any(is_simulated(row) for row in rows):
        notes.append("† a simulated language model: its figures say nothing of a real one")
    if any(is_reference(row) for row in rows):
        notes.append("oracle: knows the realised world; a bound, not ranked")
    past = leaderboard.get("experience")
    if isinstance(past, Mapping):
        notes.append(
            f"BTP plans from {past['uses']:,} past uses ({past['uses_per_tool']:.0f} a tool) in {past['queries']:,} train "
            f"queries, explored by {past['explorer']}"
        )
    broken = [plain(row.get("agent")) for row in rows if is_void(row)]
    if broken:
        notes.append(f"{', '.join(dict.fromkeys(broken))}: no episode could be played (infrastructure failures); not ranked")
    void = sum(int(row.get("void_episodes") or 0) for row in rows)
    if void:
        notes.append(f"{void} void episodes (infrastructure failures) are left out of every figure")
        notes += [f"void: {plain(reason)}" for reason in void_reasons(rows)[:MAX_REASONS]]
    return notes
