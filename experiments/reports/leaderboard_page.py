"""The leaderboard as one self-contained page.

`render` writes a single HTML file that works from disk and asks nothing of the network. The table is complete without a
script; the script sorts, filters and draws the figures from the data embedded in the page. Every name is escaped, and the
same leaderboard gives the same bytes.
"""

from __future__ import annotations

import html
import itertools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from ...simulators.ledger import RESOURCES
from ..leaderboard.metric_columns import (
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
from ..metrics import GRADINGS, budget_order, rank_rows

_SLOT = re.compile(r"\[\[(\w+)\]\]")
_GRADING_TITLES = {"strict": "Strict", "judge": "Lenient judge"}
_UNITS = {"rate": ",&nbsp;%"}


@dataclass(frozen=True, slots=True)
class PageContext:
    """What the site adds to the page; all of it HTML.

    Attributes:
        policy: the page's content security policy.
        styles: links in the head.
        bar: navigation above the header.
        sections: after the figures.
        scripts: at the end.
        agent_page: address of the page of a row's agent.
    """

    policy: str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    styles: str = ""
    bar: str = ""
    sections: str = ""
    scripts: str = ""
    agent_page: Callable[[Row], str] | None = None


def render(leaderboard: Mapping[str, Any], around: PageContext | None = None) -> str:
    """The page of a leaderboard.

    Args:
        leaderboard: the content of `leaderboard.json`; rows in any order. A `scenario` with name, description and currency, and
            `verified` rows, are shown where they are there.
        around: what the site adds; nothing by default.

    Returns:
        A whole HTML document.
    """
    grading = leaderboard.get("grading")
    if grading not in GRADINGS:
        grading = next((row["grading"] for row in leaderboard.get("rows") or [] if row.get("grading") in GRADINGS), GRADINGS[0])
    rows = rank_rows(leaderboard.get("rows") or [], grading)
    budgets = [next(group) for _, group in itertools.groupby(rows, key=_budget_key)]
    scenario = leaderboard.get("scenario")
    scenario = scenario if isinstance(scenario, Mapping) else {"name": scenario} if scenario else {}
    ranks = {name: _ranks(rows, name) for name in GRADINGS}
    around = around or PageContext()
    slots = {
        "policy": around.policy,
        "styles": around.styles,
        "bar": around.bar,
        "sections": around.sections,
        "scripts": around.scripts,
        "title": _text(f"costgym leaderboard: {leaderboard.get('suite', '')}, seed {leaderboard.get('seed', '')}"),
        "grading": grading,
        "heading": "Tool-using agents under a budget",
        "lede": _lede(rows, budgets, scenario),
        "facts": _facts(leaderboard, rows, scenario),
        "budget_choices": _budget_choices(budgets),
        "grading_choices": "".join(_choice("grading", name, _GRADING_TITLES[name], name == grading) for name in GRADINGS),
        "ranking_note": _ranking_note(rows),
        "head": _head(scenario),
        "body": "\n".join(_row(row, rows, ranks, index, around.agent_page) for index, row in enumerate(rows)),
        "notes": _notes(rows),
        "lines_caption": _caption(
            "Whiskers are 95 % intervals; marks of one budget are set apart sideways to be told apart.", rows
        ),
        "scatter_caption": _caption(
            "Up and to the left is better. The dotted line is the Pareto front: no ranked agent passes more for less. "
            "With several budgets, larger marks are larger budgets.",
            rows,
        ),
        "meanings": "\n".join(_meaning(column) for column in COLUMNS),
        "footer": _footer(leaderboard),
        "data": _embedded(_data(rows, budgets, ranks, scenario)),
        "css": _template("page.css"),
        "js": _template("page.js"),
    }
    return _SLOT.sub(lambda slot: slots[slot[1]], _template("page.html"))


def _template(name: str) -> str:
    return (files(__package__) / "templates" / name).read_text(encoding="utf-8").strip()


def _text(value: object) -> str:
    return html.escape(plain(value), quote=True)


def _embedded(data: object) -> str:
    """JSON that cannot end the script element it stands in, whatever a name holds."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _budget_key(row: Row) -> tuple[float, ...]:
    return budget_order(row.get("budget") or {})


def _same_budget(row: Row, rows: Sequence[Row]) -> list[Row]:
    return [other for other in rows if _budget_key(other) == _budget_key(row)]


def _ranks(rows: Sequence[Row], grading: str) -> dict[int, tuple[int, str]]:
    """Place in the whole order and rank within the budget, by the identity of the row."""
    found: dict[int, tuple[int, str]] = {}
    place = itertools.count()
    for _, group in itertools.groupby(rank_rows(rows, grading), key=_budget_key):
        rank = itertools.count(1)
        for row in group:
            found[id(row)] = (next(place), "–" if is_reference(row) else str(next(rank)))
    return found


def _lede(rows: Sequence[Row], budgets: Sequence[Row], scenario: Mapping[str, Any]) -> str:
    if not rows:
        return "No episode has been played yet."
    agents = {(row.get("agent"), row.get("model")) for row in rows}
    counts = sorted({int(row.get("episodes") or 0) for row in rows})
    asked = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    sentences = [plain(scenario["description"]).rstrip(". ") + "."] if scenario.get("description") else []
    sentences.append(
        f"{len(agents)} agent{'s' * (len(agents) != 1)} meet the same worlds under {len(budgets)} "
        f"budget{'s' * (len(budgets) != 1)}, {asked} episodes each."
    )
    return _text(" ".join(sentences))


def _facts(leaderboard: Mapping[str, Any], rows: Sequence[Row], scenario: Mapping[str, Any]) -> str:
    facts = {
        "Suite": leaderboard.get("suite"),
        "Scenario": scenario.get("name"),
        "Split": scenario.get("split"),
        "Environment": ", ".join(sorted({str(row["env"]) for row in rows if row.get("env")})),
        "Seed": leaderboard.get("seed"),
        "Version": leaderboard.get("version"),
    }
    return "\n".join(
        f"<div><dt>{name}</dt><dd>{_text(value)}</dd></div>" for name, value in facts.items() if value not in (None, "")
    )


def _choice(group: str, value: object, label: str, checked: bool) -> str:
    mark = " checked" if checked else ""
    return f'<label><input type="radio" name="{group}" value="{value}"{mark}><span>{_text(label)}</span></label>'


def _budget_choices(budgets: Sequence[Row]) -> str:
    """All, and one a budget; the one in the middle is shown first, being the most telling."""
    chosen = (len(budgets) - 1) // 2 if len(budgets) % 2 else len(budgets) // 2
    each = [_choice("budget", i, budget_label(row.get("budget")), i == chosen) for i, row in enumerate(budgets)]
    return "".join([*each, _choice("budget", "all", "All", not budgets)] if len(budgets) != 1 else each)


def _ranking_note(rows: Sequence[Row]) -> str:
    parts = ["Ranked by the pass rate within the budget, then by price. Bold: the best of the ranked agents under that budget."]
    if any(is_reference(row) for row in rows):
        parts.append("The oracle knows how the world will turn out: it is a bound and has no rank.")
    return _text(" ".join(parts))


def _notes(rows: Sequence[Row]) -> str:
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
    return "\n".join(f'<p class="note">{_text(note)}</p>' for note in notes)


def _caption(text: str, rows: Sequence[Row]) -> str:
    return _text(text + (" † simulated language model." if any(is_simulated(row) for row in rows) else ""))


def _head(scenario: Mapping[str, Any]) -> str:
    def cell(key: str, title: str, classes: str, first: str, shown: str, meaning: str = "", sort: str = "") -> str:
        described = f' title="{_text(meaning)}" aria-describedby="about-{key}"' if meaning else ""
        label = f' aria-label="{title}"' if shown != title and not meaning else ""
        return (
            f'<th scope="col" class="{classes}" data-sort="{key}" data-title="{title}" data-first="{first}"{sort}>'
            f'<button type="button"{described}{label}>{shown}</button></th>'
        )

    cells = [
        cell("rank", "Rank", "rank", "up", "#", sort=' aria-sort="ascending"'),
        cell("agent", "Agent", "agent", "up", "Agent"),
        cell("budget", "Budget", "limits", "up", "Budget"),
    ]
    for column in COLUMNS:
        unit = f", {_text(scenario['currency'])}" if column.metric == "average_cost" and scenario.get("currency") else ""
        shown = f"{column.title}{unit}{_UNITS.get(column.kind, '')}"
        first = "down" if column.higher_is_better else "up"
        classes = "figure main" if column is COLUMNS[0] else "figure"
        cells.append(cell(column.metric, column.title, classes, first, shown, column.meaning))
    return "\n".join(cells)


def _row(
    row: Row,
    rows: Sequence[Row],
    ranks: Mapping[str, Mapping[int, tuple[int, str]]],
    index: int,
    agent_page: Callable[[Row], str] | None,
) -> str:
    peers = _same_budget(row, rows)
    rank = "".join(f'<span class="of-{name}">{ranks[name][id(row)][1]}</span>' for name in GRADINGS)
    if is_simulated(row):
        under = "simulated model"
    elif is_reference(row):
        under = "bound, not ranked"
    else:
        under = plain(row["model"]) if row.get("model") else "no language model"
    if row.get("verified") is True:
        under += ", verified"
    agent = _text(row.get("agent"))
    if agent_page is not None:
        agent = f'<a href="{_text(agent_page(row))}">{agent}</a>'
    name = f'<span class="name"><span>{agent}</span></span><small>{_text(under)}</small>'
    cells = "".join(_figure_cell(row, column, peers) for column in COLUMNS)
    reference = ' class="reference"' if is_reference(row) else ""
    return (
        f'<tr data-row="{index}"{reference}><td class="rank">{rank}</td>'
        f'<th scope="row" class="agent" title="{_text(row.get("env", ""))}">{name}</th>'
        f'<td class="limits">{_text(budget_label(row.get("budget")))}</td>{cells}</tr>'
    )


def _figure_cell(row: Row, column: Column, peers: Sequence[Row]) -> str:
    main = column is COLUMNS[0]
    if column.judged is None:
        inner = _figure(row, column, column.metric, peers, main)
    else:
        metrics = {"strict": column.metric, "judge": column.judged}
        inner = "".join(f'<div class="of-{g}">{_figure(row, column, metrics[g], peers, main)}</div>' for g in GRADINGS)
    return f'<td class="figure{" main" if main else ""}">{inner}</td>'


def _figure(row: Row, column: Column, metric: str, peers: Sequence[Row], strip: bool) -> str:
    value, ends = figure(row, metric), interval(row, metric)
    is_best = value is not None and not is_reference(row) and value == best(peers, column, metric)
    text = f'<span class="best">{written(value, column.kind)}</span>' if is_best else written(value, column.kind)
    if strip and value is not None:
        low, high = (min(1.0, max(0.0, end)) for end in ends or (value, value))
        text += (
            f'<span class="strip" aria-hidden="true"><i style="left:{100 * low:.1f}%;width:{100 * (high - low):.1f}%"></i>'
            f'<b style="left:{100 * min(1.0, max(0.0, value)):.1f}%"></b></span>'
        )
    if ends:
        text += f'<small class="ci">{written(ends[0], column.kind)} to {written(ends[1], column.kind)}</small>'
    return text


def _meaning(column: Column) -> str:
    return f'<dt>{_text(column.title)}</dt><dd id="about-{column.metric}">{_text(column.meaning)}</dd>'


def _footer(leaderboard: Mapping[str, Any]) -> str:
    return _text(
        "Intervals are 95 % percentile intervals of a bootstrap over episodes, paired: every agent is resampled alike. "
        f"The denominator is always the episodes asked for. Made by costgym {leaderboard.get('version', '')} from "
        f"leaderboard.json ({leaderboard.get('format', '')}); the same seed gives the same page."
    )


def _data(
    rows: Sequence[Row],
    budgets: Sequence[Row],
    ranks: Mapping[str, Mapping[int, tuple[int, str]]],
    scenario: Mapping[str, Any],
) -> dict[str, Any]:
    """What the script draws from."""
    keys = list(dict.fromkeys((row.get("agent"), row.get("model")) for row in rows))
    names = [agent for agent, _ in keys]
    of_key = {(row.get("agent"), row.get("model")): row for row in rows}
    axis = max(RESOURCES, key=lambda name: len({(row.get("budget") or {}).get(name) for row in rows}))
    indices = {_budget_key(row): index for index, row in enumerate(budgets)}
    metrics = [name for column in COLUMNS for name in (column.metric, column.judged) if name]
    return {
        "axis": axis,
        "unit": scenario.get("currency", "") if axis == "price" else "",
        "currency": scenario.get("currency", ""),
        "judged": {column.metric: column.judged for column in COLUMNS if column.judged},
        "budgets": [
            {"label": budget_label(row.get("budget")), "price": (row.get("budget") or {}).get("price")} for row in budgets
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
                "budget": indices[_budget_key(row)],
                "x": (row.get("budget") or {}).get(axis),
                "rest": budget_label({name: limit for name, limit in (row.get("budget") or {}).items() if name != axis}),
                "place": {name: ranks[name][id(row)][0] for name in GRADINGS},
                "figures": {metric: figure(row, metric) for metric in metrics},
                "ci95": {metric: ends for metric in metrics if (ends := interval(row, metric))},
            }
            for row in rows
        ],
    }
