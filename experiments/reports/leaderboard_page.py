"""The leaderboard as one self-contained page.

A single HTML file that works from disk and asks nothing of the network. The table is complete without a script; the script
sorts, filters and draws the figures from the data embedded in the page. Every name is escaped, and the same leaderboard gives
the same bytes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from ...simulators.ledger import RESOURCES
from ..leaderboard.conditions import (
    PASS_RATE,
    budget_label,
    condition_label,
    condition_places,
    rank_rows,
    ranking_metric,
    row_key,
)
from ..leaderboard.metric_columns import (
    Column,
    Row,
    best,
    columns_of,
    figure,
    interval,
    is_reference,
    is_simulated,
    plain,
    written,
)
from ..metrics import GRADINGS
from .html import asset, embedded, render
from .learning_curves import curves_section
from .opencatp_figures import plan_figures

_GRADING_TITLES = {"strict": "Strict", "judge": "Lenient judge"}
_UNITS = {"rate": ", %"}
NOTHING = Markup("")


@dataclass(frozen=True, slots=True)
class PageContext:
    """What surrounds the page where it is part of a site.

    Attributes:
        policy: the page's content security policy.
        styles, scripts: addresses of further ones.
        bar: navigation above the header.
        sections: after the figures.
        agent_page: address of the page of a row's agent.
    """

    policy: str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    styles: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()
    bar: Markup = NOTHING
    sections: Markup = NOTHING
    agent_page: Callable[[Row], str] | None = None


def page_of(leaderboard: Mapping[str, Any], context: PageContext | None = None) -> str:
    """The page of a leaderboard.

    Args:
        leaderboard: the content of `leaderboard.json`; rows in any order. A `scenario` with name, description and currency, and
            `verified` rows, are shown where they are there.
        context: what the site adds; nothing by default.

    Returns:
        A whole HTML document.
    """
    context = context or PageContext()
    grading = leaderboard.get("grading")
    if grading not in GRADINGS:
        grading = next((row["grading"] for row in leaderboard.get("rows") or [] if row.get("grading") in GRADINGS), GRADINGS[0])
    rows = rank_rows(leaderboard.get("rows") or [], leaderboard, grading)
    groups = [list(group) for _, group in itertools.groupby(rows, key=lambda row: row_key(row, leaderboard))]
    scenario = leaderboard.get("scenario")
    scenario = scenario if isinstance(scenario, Mapping) else {"name": scenario} if scenario else {}
    columns = columns_of(leaderboard)
    gradings = GRADINGS if any(column.judged for column in columns) else (grading,)
    ranks = {name: _ranks(rows, leaderboard, name) for name in GRADINGS}
    peers = {id(row): group for group in groups for row in group}
    drawn = ranking_metric(leaderboard, "strict") == PASS_RATE
    sections = context.sections + plan_figures(leaderboard) + curves_section(rows)
    return render(
        "page.html",
        context=context,
        css=Markup(asset("page.css")),
        js=Markup(asset("page.js")),
        title=f"costgym leaderboard: {leaderboard.get('suite', '')}, seed {leaderboard.get('seed', '')}",
        grading=grading,
        heading="Tool-using agents under a budget" if drawn else "Planners of priced tools",
        lede=_lede(rows, groups, scenario),
        facts=_facts(leaderboard, rows, scenario),
        condition_title="Budget" if drawn else "Played under",
        condition_choices=_condition_choices(groups, leaderboard),
        grading_choices=[
            {"value": name, "label": _GRADING_TITLES[name], "checked": name == grading}
            for name in gradings
            if len(gradings) > 1
        ],
        ranking_note=_ranking_note(rows, columns[0]),
        heads=_heads(columns, scenario, "Budget" if drawn else "Played under"),
        rows=[_row(row, leaderboard, columns, peers[id(row)], ranks, gradings, context.agent_page) for row in rows],
        notes=_notes(rows),
        drawn=drawn,
        simulated_mark=" † simulated language model." if any(is_simulated(row) for row in rows) else "",
        sections=sections,
        columns=columns,
        footer=(
            "Intervals are 95 % percentile intervals of a bootstrap over episodes, paired: every agent is resampled alike. "
            f"The denominator is always the episodes asked for. Made by costgym {leaderboard.get('version', '')} from "
            f"leaderboard.json ({leaderboard.get('format', '')}); the same seed gives the same page."
        ),
        data=embedded(_data(rows, groups, columns, ranks, leaderboard, scenario)),
    )


def _ranks(rows: Sequence[Row], leaderboard: Mapping[str, Any], grading: str) -> dict[int, tuple[int, str]]:
    """Place in the whole order and rank within the condition, by the identity of the row."""
    found: dict[int, tuple[int, str]] = {}
    place = itertools.count()
    for _, group in itertools.groupby(rank_rows(rows, leaderboard, grading), key=lambda row: row_key(row, leaderboard)):
        rank = itertools.count(1)
        for row in group:
            found[id(row)] = (next(place), "–" if is_reference(row) else str(next(rank)))
    return found


def _lede(rows: Sequence[Row], groups: Sequence[Sequence[Row]], scenario: Mapping[str, Any]) -> str:
    if not rows:
        return "No episode has been played yet."
    agents = {(row.get("agent"), row.get("model")) for row in rows}
    counts = sorted({int(row.get("episodes") or 0) for row in rows})
    asked = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    sentences = [plain(scenario["description"]).rstrip(". ") + "."] if scenario.get("description") else []
    played = "budget" if all("alpha" not in row for row in rows) else "condition"
    sentences.append(
        f"{len(agents)} agent{'s' * (len(agents) != 1)} meet the same worlds under {len(groups)} "
        f"{played}{'s' * (len(groups) != 1)}, {asked} episodes each."
    )
    return " ".join(sentences)


def _facts(leaderboard: Mapping[str, Any], rows: Sequence[Row], scenario: Mapping[str, Any]) -> list[tuple[str, Any]]:
    facts = {
        "Suite": leaderboard.get("suite"),
        "Scenario": scenario.get("name"),
        "Profile": scenario.get("profile"),
        "Split": scenario.get("split"),
        "Environment": ", ".join(sorted({str(row["env"]) for row in rows if row.get("env")})),
        "Seed": leaderboard.get("seed"),
        "Version": leaderboard.get("version"),
    }
    return [(name, value) for name, value in facts.items() if value not in (None, "")]


def _condition_choices(groups: Sequence[Sequence[Row]], leaderboard: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One a condition, and all; the one in the middle is shown first, being the most telling."""
    chosen = (len(groups) - 1) // 2 if len(groups) % 2 else len(groups) // 2
    each: list[dict[str, Any]] = [
        {"value": index, "label": condition_label(group[0], leaderboard), "checked": index == chosen}
        for index, group in enumerate(groups)
    ]
    return each if len(groups) == 1 else [*each, {"value": "all", "label": "All", "checked": not groups}]


def _ranking_note(rows: Sequence[Row], main: Column) -> str:
    by = "the pass rate within the budget" if main.metric == PASS_RATE else main.title.lower()
    parts = [f"Ranked by {by}, then by price. Bold: the best of the ranked agents under the same conditions."]
    if any(is_reference(row) for row in rows):
        parts.append("The oracle knows how the world will turn out: it is a bound and has no rank.")
    return " ".join(parts)


def _notes(rows: Sequence[Row]) -> list[str]:
    notes = []
    if any(is_simulated(row) for row in rows):
        notes.append(
            "Simulated model: a stand-in without weights that errs at set rates. It compares strategies under budgets; its "
            "figures say nothing of a real language model."
        )
    void = sum(int(row.get("void_episodes") or 0) for row in rows)
    missing = sum(int(row.get("missing_episodes") or 0) for row in rows)
    if void:
        notes.append(f"{void:,} episodes are void, broken by the infrastructure, and left out of every figure.")
    if missing:
        notes.append(f"{missing:,} episodes have no record and count as failures.")
    return notes


def _heads(columns: Sequence[Column], scenario: Mapping[str, Any], condition: str) -> list[dict[str, str]]:
    def head(key: str, title: str, classes: str, shown: str, first: str = "up", meaning: str = "") -> dict[str, str]:
        return {"key": key, "title": title, "classes": classes, "shown": shown, "first": first, "meaning": meaning}

    found = [
        head("rank", "Rank", "rank", "#"),
        head("agent", "Agent", "agent", "Agent"),
        head("condition", condition, "limits", condition),
    ]
    for column in columns:
        unit = f", {scenario['currency']}" if column.metric == "average_cost" and scenario.get("currency") else ""
        shown = f"{column.title}{unit}{_UNITS.get(column.kind, '')}"
        classes = "figure main" if column is columns[0] else "figure"
        found.append(
            head(column.metric, column.title, classes, shown, "down" if column.higher_is_better else "up", column.meaning)
        )
    return found


def _row(
    row: Row,
    leaderboard: Mapping[str, Any],
    columns: Sequence[Column],
    peers: Sequence[Row],
    ranks: Mapping[str, Mapping[int, tuple[int, str]]],
    gradings: Sequence[str],
    agent_page: Callable[[Row], str] | None,
) -> dict[str, Any]:
    if is_simulated(row):
        under = "simulated model"
    elif is_reference(row):
        under = "bound, not ranked"
    else:
        under = plain(row["model"]) if row.get("model") else "no language model"
    if row.get("verified") is True:
        under += ", verified"
    return {
        "reference": is_reference(row),
        "ranks": [(name, ranks[name][id(row)][1]) for name in gradings],
        "env": row.get("env", ""),
        "agent": str(row.get("agent")),
        "page": None if agent_page is None else agent_page(row),
        "under": under,
        "condition": condition_label(row, leaderboard),
        "cells": [_cell(row, column, peers, column is columns[0]) for column in columns],
    }


def _cell(row: Row, column: Column, peers: Sequence[Row], main: bool) -> list[dict[str, Any]]:
    """The figures of a cell: one, or one a grading."""
    if column.judged is None:
        return [_figure(row, column, column.metric, peers, main, "")]
    metrics = {"strict": column.metric, "judge": column.judged}
    return [_figure(row, column, metrics[grading], peers, main, grading) for grading in GRADINGS]


def _figure(row: Row, column: Column, metric: str, peers: Sequence[Row], main: bool, grading: str) -> dict[str, Any]:
    value, ends = figure(row, metric), interval(row, metric)
    strip = None
    if main and value is not None and column.kind == "rate":
        low, high = (100 * min(1.0, max(0.0, end)) for end in ends or (value, value))
        strip = {"low": low, "high": high, "at": 100 * min(1.0, max(0.0, value))}
    return {
        "grading": grading,
        "value": written(value, column.kind),
        "best": value is not None and not is_reference(row) and value == best(peers, column, metric),
        "strip": strip,
        "ends": None if ends is None else [written(end, column.kind) for end in ends],
    }


def _data(
    rows: Sequence[Row],
    groups: Sequence[Sequence[Row]],
    columns: Sequence[Column],
    ranks: Mapping[str, Mapping[int, tuple[int, str]]],
    leaderboard: Mapping[str, Any],
    scenario: Mapping[str, Any],
) -> dict[str, Any]:
    """What the script sorts by and draws from."""
    keys = list(dict.fromkeys((row.get("agent"), row.get("model")) for row in rows))
    names = [agent for agent, _ in keys]
    of_key = {(row.get("agent"), row.get("model")): row for row in rows}
    axis = max(RESOURCES, key=lambda name: len({(row.get("budget") or {}).get(name) for row in rows}))
    places = condition_places({**leaderboard, "rows": rows})
    numbers = {
        key: number for number, key in enumerate(sorted({row_key(row, leaderboard) for row in rows}, key=places.__getitem__))
    }
    metrics = [name for column in columns for name in (column.metric, column.judged) if name]
    return {
        "axis": axis,
        "unit": scenario.get("currency", "") if axis == "price" else "",
        "currency": scenario.get("currency", ""),
        "judged": {column.metric: column.judged for column in columns if column.judged},
        "conditions": [
            {"label": condition_label(group[0], leaderboard), "price": (group[0].get("budget") or {}).get("price")}
            for group in groups
        ],
        "series": [
            {
                "label": plain(agent) if names.count(agent) == 1 else f"{plain(agent)}, {plain(model)}",
                "simulated": is_simulated(of_key[agent, model]),
                "reference": is_reference(of_key[agent, model]),
            }
            for agent, model in keys
        ],
        "rows": [
            {
                "series": keys.index((row.get("agent"), row.get("model"))),
                "condition": numbers[row_key(row, leaderboard)],
                "x": (row.get("budget") or {}).get(axis),
                "rest": budget_label({name: limit for name, limit in (row.get("budget") or {}).items() if name != axis}),
                "place": {name: ranks[name][id(row)][0] for name in GRADINGS},
                "figures": {metric: figure(row, metric) for metric in metrics},
                "ci95": {metric: ends for metric in metrics if (ends := interval(row, metric))},
            }
            for row in rows
        ],
    }
