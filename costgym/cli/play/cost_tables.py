"""The tables of `costgym cost`: a forecast, logs that were priced, recorded episodes that were replanned."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

ERROR_OF_MEAN = 0.06  # of 24 forecasts, relative: `benchmarks/forecast.py`
ESTIMATED = "All tokens are estimated from the lengths of texts."
CLASSES = ("requests", "input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens")

Row = dict[str, Any]


class CostTable(NamedTuple):
    """A table of costs.

    Attributes:
        names: how many of the columns name a row.
        notes: what the figures mean, a sentence each.
    """

    title: str
    columns: Sequence[str]
    names: int
    cells: list[list[str]]
    notes: list[str]


def forecast_table(rows: Sequence[Row], tasks_per_month: int, decisions: str) -> CostTable:
    columns = ("agent", "model", "cache", "success", "$ a task", "p50", "p95", "$ a success", "$ a month", "cached")
    cells = [
        [
            row["agent"],
            row["model"],
            row["cache"],
            f"{row['success']:.0%}",
            *(dollars(row[name]) for name in ("usd_per_task", "usd_p50", "usd_p95", "usd_per_success")),
            f"{row['usd_per_month']:,.0f}",
            f"{row['cached_share']:.0%}",
        ]
        for row in rows
    ]
    who = (
        "a simulated language model"
        if decisions == "simulated"
        else f"a simulated language model with the rates of {decisions}"
    )
    caches = "cache `prefix` bills prompts as the vendor's cache does, `none` without it"
    if any(row["cache"] == "shared" for row in rows):
        caches += ", `shared` with one cache for all tasks"
    notes = [
        f"A month has {tasks_per_month:,} tasks. Decisions are those of {who}; {caches}.",
        ESTIMATED,
        f"Means of such forecasts were off by {ERROR_OF_MEAN:.0%} on average where the rates of the model are known.",
    ]
    return CostTable("What agents will cost", columns, 3, cells, notes)


def trace_table(rows: Sequence[Row], tasks_per_month: int) -> CostTable:
    columns = ("log", "model", "cache", "traces", "$", "$ a trace", "p50", "p95", "$ a month", "cached")
    cells = [
        [
            row["agent"],
            row["model"],
            row["cache"],
            f"{row['tasks']:,}",
            *(dollars(row[name]) for name in ("usd", "usd_per_task", "usd_p50", "usd_p95")),
            f"{row['usd_per_month']:,.0f}",
            f"{row['cached_share']:.0%}",
        ]
        for row in rows
    ]
    meaning = {"recorded": "tokens by class as the log has them", "prefix": "counted again by the vendor's rules"}
    cache = rows[0]["cache"]
    notes = [f"A month has {tasks_per_month:,} traces. Cache `{cache}`: {meaning[cache]}."]
    return CostTable("What traces cost", columns, 3, cells, notes)


def replanned_table(rows: Sequence[Row], tasks_per_month: int) -> CostTable:
    def between(row: Row, name: str, write: Callable[[float], str]) -> str:
        low, high = row[f"{name}_interval"]
        return f"{write(row[name])} ({write(low)}–{write(high)})"

    columns = ("agent", "model", "success", "$ a task", "$ a month", "cached")
    cells = [
        [
            row["agent"],
            row["model"],
            between(row, "success", "{:.0%}".format),
            between(row, "usd_per_task", dollars),
            between(row, "usd_per_month", "{:,.0f}".format),
            f"{row['cached_share']:.0%}",
        ]
        for row in rows
    ]
    first = rows[0]
    notes = [
        f"A month has {tasks_per_month:,} tasks. Replanned: a twin fitted to {first['fitted_to']} recorded episodes decides on "
        f"{first['episodes']} of their tasks; medians and 90 % intervals of {first['draws']} draws of its rates.",
        ESTIMATED,
    ]
    return CostTable("What recorded agents would have cost", columns, 2, cells, notes)


def with_classes(table: CostTable, rows: Sequence[Row]) -> CostTable:
    """The table with the tokens by class of a task, and the costs of tokens and tools apart where they are known."""
    more = [name for name in ("usd_tokens", "usd_tools", *CLASSES) if name in rows[0]]
    written = {"usd_tokens": "$ tokens", "usd_tools": "$ tools"}
    cells = [
        [*line, *(dollars(row[name]) if name in written else f"{row[name]:,.0f}" for name in more)]
        for line, row in zip(table.cells, rows, strict=True)
    ]
    columns = [*table.columns, *(written.get(name, name.replace("_", " ")) for name in more)]
    return table._replace(columns=columns, cells=cells)


def dollars(amount: float | None) -> str:
    return "–" if amount is None else f"{amount:.2g}" if amount < 10 else f"{amount:,.0f}"
