"""Show what faults cost: success over failure rate, rate limits and latency, for leaderboards whose world's stress varies."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from ..board.conditions import CALM, budget_label, currency_of, ranking_metric
from ..board.rows import is_void, shown_name
from ..play.metric_registry import Row, cell, figure, written
from ..play.metrics import GRADINGS
from .html import part

_TITLES = {"failures": "Failures", "rate_limits": "Rate limits", "latency": "Latency"}


def robustness_section(track: Mapping[str, Any]) -> Markup:
    """The section of a track's page (`tracks.track_documents`); empty where no stress varies."""
    rows = [row for row in track.get("rows") or () if row.keys() >= CALM.keys() and not is_void(row)]
    levels = {name: sorted({float(row[name]) for row in rows}) for name in CALM}
    if not rows or all(len(each) < 2 for each in levels.values()):
        return Markup("")
    metric = ranking_metric(track)
    budgets = list(dict.fromkeys(tuple(sorted((row.get("budget") or {}).items())) for row in rows))
    blocks: list[dict[str, Any]] = []
    for budget in budgets:
        own = [row for row in rows if tuple(sorted((row.get("budget") or {}).items())) == budget]
        agents = list(dict.fromkeys((str(row.get("agent")), str(row.get("model") or "")) for row in own))
        found = [[row for row in own if (str(row.get("agent")), str(row.get("model") or "")) == agent] for agent in agents]
        blocks.append(
            {
                "budget": budget_label(dict(budget), currency_of(track)) if len(budgets) > 1 else "",
                "agents": sorted(
                    (_agent(each, levels, metric, track) for each in found),
                    key=lambda agent: float(agent["kept"]),
                    reverse=True,
                ),
            }
        )
    columns = [*({"title": _level(name, levels[name][-1])} for name in CALM if len(levels[name]) > 1), {"title": "All of them"}]
    return part(
        "robustness.html",
        blocks=blocks,
        columns=columns,
        limits=[_level("rate_limits", level) for level in levels["rate_limits"]],
        figure=_field(track),
    )


def _field(track: Mapping[str, Any]) -> str:
    return "judged_fault_robustness" if track.get("grading") == GRADINGS[1] else "fault_robustness"


def _level(name: str, factor: float) -> str:
    return f"{_TITLES[name]} × {factor:g}"


def _agent(rows: Sequence[Row], levels: Mapping[str, Sequence[float]], metric: str, track: Mapping[str, Any]) -> dict[str, Any]:
    """An agent's line in the summary, and its surface: a table for each latency, a line for each failure rate."""
    by_level = {tuple(float(row[name]) for name in CALM): row for row in rows}
    calm = tuple(CALM.values())
    hardest = {name: levels[name][-1] for name in CALM}
    varied = [name for name in CALM if len(levels[name]) > 1]
    asked = [{**CALM, name: hardest[name]} for name in varied] + [hardest]
    kept = [by_level.get(tuple(each[name] for name in CALM)) for each in asked]
    field = _field(track)
    cells = [cell(row or {}, field, "rate") for row in kept]
    last = None if kept[-1] is None else figure(kept[-1], field)
    return {
        "name": shown_name(rows[0]),
        "calm": written(None if calm not in by_level else figure(by_level[calm], metric), "rate"),
        "cells": cells,
        "kept": -1.0 if last is None else last,
        "surface": [
            {
                "title": _level("latency", latency),
                "lines": [
                    {
                        "title": _level("failures", failures),
                        "cells": [_cell(by_level.get((failures, limits, latency)), metric) for limits in levels["rate_limits"]],
                    }
                    for failures in levels["failures"]
                ],
            }
            for latency in levels["latency"]
        ],
    }


def _cell(row: Row | None, metric: str) -> dict[str, Any]:
    value = None if row is None else figure(row, metric)
    return {"value": written(value, "rate"), "shade": 0 if value is None else round(100 * min(1.0, max(0.0, value)))}
