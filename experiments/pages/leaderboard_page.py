"""The leaderboard as self-contained pages, one a track.

Each is a single HTML file that works from disk and asks nothing of the network. The table is complete without a script; the
script sorts, filters and draws the figures from the data embedded in the page. Every name is escaped, and the same leaderboard
gives the same bytes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from ...simulators.ledger import RESOURCES
from ..board.conditions import (
    PASS_RATE,
    budget_label,
    condition_label,
    condition_places,
    rank_rows,
    ranking_metric,
    row_key,
    settings_of,
    shown_first,
)
from ..board.metric_columns import (
    MAX_REASONS,
    Column,
    Row,
    best,
    columns_of,
    figure,
    interval,
    is_ranked,
    is_reference,
    is_simulated,
    is_void,
    plain,
    void_reasons,
    written,
)
from ..board.tracks import TRACKS, track_documents, track_files
from ..play.metrics import GRADINGS
from .agent_notes import describe, papers_behind
from .findings import finding, gains
from .html import asset, embedded, render
from .learning_curves import curves_section
from .opencatp_figures import plan_figures
from .reliability import reliability_section
from .robustness import robustness_section

_GRADING_TITLES = {"strict": "Strict", "judge": "Lenient judge"}
_UNITS = {"rate": ", %"}
_HEADINGS = {
    "text": "Language-model agents under a budget",
    "numbers": "Policies over numbers under a budget",
    "plans": "Planners of priced tools",
    "decisions": "Deciding whether to use a tool",
}
_UNTRACKED_HEADINGS = ("Planners of priced tools", "Tool-using agents under a budget")
_NOISY = frozenset({PASS_RATE, "quality_of_plan"})
_LINES = ("greedy", "oracle-informed", "oracle")
COLOURS = 12
_EXPLAINED = (
    ("Strict", "an answer passes when it holds every fact that was asked for; nothing else is looked at."),
    (
        "Lenient judge",
        "a seeded stand-in for a model that judges answers, as the papers use one: partial answers pass with a chance that "
        "rises with the share of facts in them, and so do some that give a good reason for giving up. It raises all "
        "pass rates, and those of agents that summarise what little they have the most.",
    ),
)
_CHECKED = (
    "Replayed: every figure of the row follows from recorded actions that were played again here. It does not say that the "
    "agent chose them without knowing the outcome. Rerun: the agent itself was run again, on seeds that nobody knew before, in "
    "a process of its own that is handed observations only, and did as well as it claimed, by a test at 1 %. The secret behind "
    "those seeds and its hash are kept with the entry; so are the actions of the rerun, which were replayed here too. That it "
    "was this agent which took them is the word of whoever keeps the leaderboard."
)
NOTHING = Markup("")


@dataclass(frozen=True, slots=True)
class PageContext:
    """The site around a page.

    Attributes:
        policy: the page's content security policy.
        styles, scripts: addresses of further ones.
        bar: navigation above the header.
        sections: after the figures.
        agent_page: address of the page of a row's agent.
        describe: what an agent of a row is, in a line.
        drawn: learning curves of agents whose training runs are elsewhere, as HTML; "" for none.
    """

    policy: str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    styles: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()
    bar: Markup = NOTHING
    sections: Markup = NOTHING
    agent_page: Callable[[Row], str] | None = None
    describe: Callable[[Row], str] = describe


def pages_of(leaderboard: Mapping[str, Any]) -> dict[str, str]:
    """Render the pages of a leaderboard, by the names of their files: `index.html` is that of its first track.

    They show the learning curves of trained agents whose training runs are still there.

    Args:
        leaderboard: the content of `leaderboard.json`.
    """
    names, context = track_files(leaderboard), PageContext()
    return {file: page_of(leaderboard, context, track) for track, file in names.items()}


def page_of(leaderboard: Mapping[str, Any], context: PageContext | None = None, track: str | None = None) -> str:
    """Render the page of a leaderboard's track.

    Args:
        leaderboard: the content of `leaderboard.json`; rows in any order. A `scenario` with name, description and currency, and
            `verified` rows, are shown where they are there.
        context: what the site adds; nothing by default.
        track: its name; None for the first.

    Returns:
        A whole HTML document.
    """
    context = context or PageContext()
    whole, files = leaderboard, track_files(leaderboard)
    views = track_documents(leaderboard)
    leaderboard = next((view for view in views if view.get("track") == track), views[0])
    here = str(leaderboard.get("track", ""))
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
    budgets_alone = all(not settings_of(row, leaderboard) for row in rows)
    drawn = ranking_metric(leaderboard, "strict") == PASS_RATE and budgets_alone
    varied = "Budget" if budgets_alone else "Played under"
    return render(
        "page.html",
        context=context,
        css=Markup(asset("page.css")),
        js=Markup(asset("page.js")),
        title=f"costgym leaderboard: {leaderboard.get('suite', '')}, seed {leaderboard.get('seed', '')}",
        grading=grading,
        heading=_HEADINGS.get(
            here, "Tool-using agents under a budget" if columns[0].kind == "rate" else "Planners of priced tools"
        ),
        tracks=[
            {
                "href": files[str(view["track"])],
                "title": TRACKS[str(view["track"])].title,
                "here": view["track"] == here,
                "finding": finding(view),
            }
            for view in views
            if len(views) > 1
        ],
        track=here,
        sees=TRACKS[here].sees if here in TRACKS else "",
        finding=finding(leaderboard) if rows else "",
        lede=_lede(rows, groups, scenario, leaderboard),
        facts=_facts(leaderboard, rows, scenario),
        condition_title=varied,
        condition_choices=_condition_choices(groups, leaderboard),
        grading_choices=[
            {"value": name, "label": _GRADING_TITLES[name], "checked": name == grading}
            for name in gradings
            if len(gradings) > 1
        ],
        ranking_note=_ranking_note(rows, columns[0]),
        heads=_heads(columns, scenario, varied),
        rows=[
            _row(row, leaderboard, columns, peers[id(row)], ranks, gradings, context.agent_page, context.describe)
            for row in rows
        ],
        notes=_notes(rows),
        drawn=drawn,
        simulated_mark=" † simulated language model." if any(is_simulated(row) for row in rows) else "",
        sections=context.sections + plan_figures(leaderboard) + curves_section(rows),
        robustness=robustness_section(leaderboard) + reliability_section(leaderboard),
        gains=_gains(leaderboard),
        explained=_EXPLAINED if len(gradings) > 1 else (),
        checked=_CHECKED if any(row.get("verified") for row in rows) else "",
        columns=columns,
        papers=papers_behind(rows),
        footer=(
            "Intervals are at 95 %: Wilson’s for shares, with the episodes of one task counted together, and percentiles of a "
            "bootstrap over episodes for all other figures, paired: every agent is resampled alike. "
            f"The denominator is always the episodes asked for. Made by costgym {leaderboard.get('version', '')} from "
            f"leaderboard.json ({leaderboard.get('format', '')}); the same seed gives the same page."
        ),
        data=embedded(_data(rows, groups, columns, ranks, leaderboard, scenario, _references(whole, leaderboard))),
    )


def _base(row: Row) -> str:
    """Return an agent's name without its additions; agents with the same base share a colour."""
    return str(row.get("agent")).split(" (")[0].split("+")[0]


def _addition(row: Row) -> str:
    """Return what is added to an agent, and who handed it in; these share a mark."""
    return str(row.get("agent")).removeprefix(_base(row))


def _ranks(rows: Sequence[Row], leaderboard: Mapping[str, Any], grading: str) -> dict[int, tuple[int, str]]:
    """Return place in the whole order and rank within the condition, by the identity of the row."""
    found: dict[int, tuple[int, str]] = {}
    place = itertools.count()
    for _, group in itertools.groupby(rank_rows(rows, leaderboard, grading), key=lambda row: row_key(row, leaderboard)):
        rank = itertools.count(1)
        for row in group:
            found[id(row)] = (next(place), str(next(rank)) if is_ranked(row, leaderboard) else "–")
    return found


def _lede(rows: Sequence[Row], groups: Sequence[Sequence[Row]], scenario: Mapping[str, Any], leaderboard: Row) -> str:
    if not rows:
        return "No episode has been played yet."
    agents = {(row.get("agent"), row.get("model")) for row in rows}
    counts = sorted({int(row.get("episodes") or 0) for row in rows})
    asked = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    sentences = [plain(scenario["description"]).rstrip(". ") + "."] if scenario.get("description") else []
    played = "budget" if all(not settings_of(row, leaderboard) for row in rows) else "condition"
    sentences.append(
        f"{len(agents)} agent{'s' * (len(agents) != 1)} meet the same worlds under {len(groups)} "
        f"{played}{'s' * (len(groups) != 1)}, {asked} episodes each."
    )
    return " ".join(sentences)


def _facts(leaderboard: Mapping[str, Any], rows: Sequence[Row], scenario: Mapping[str, Any]) -> list[tuple[str, Any]]:
    past = leaderboard.get("experience")
    facts = {
        "Suite": leaderboard.get("suite"),
        "Scenario": scenario.get("name"),
        "Profile": scenario.get("profile"),
        "Split": scenario.get("split"),
        "Environment": ", ".join(sorted({str(row["env"]) for row in rows if row.get("env")})),
        "Tools’ documents": leaderboard.get("documents"),
        "Seed": leaderboard.get("seed"),
        "BTP’s past uses a tool": None if past is None else f"{past['uses_per_tool']:.0f}, by {past['explorer']}",
        "Version": leaderboard.get("version"),
        "Release": leaderboard.get("release"),
    }
    return [(name, value) for name, value in facts.items() if value not in (None, "")]


def _condition_choices(groups: Sequence[Sequence[Row]], leaderboard: Mapping[str, Any]) -> list[dict[str, Any]]:
    """List the choices of a condition: each, and all. The one in the middle is shown first, being the most telling."""
    chosen = shown_first(groups)
    each: list[dict[str, Any]] = [
        {"value": index, "label": condition_label(group[0], leaderboard), "checked": index == chosen}
        for index, group in enumerate(groups)
    ]
    return each if len(groups) == 1 else [*each, {"value": "all", "label": "All", "checked": not groups}]


def _ranking_note(rows: Sequence[Row], main: Column) -> str:
    by = "the pass rate within the budget" if main.metric == PASS_RATE else main.title.lower()
    parts = [
        f"Ranked by {by}, then by price. Bold: the best of the ranked agents under the same conditions, and those that are "
        "within noise of it."
    ]
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
    rung = {(plain(row.get("agent")), plain(each)): None for row in rows for each in row.get("alarms") or ()}
    notes += [f"Alarm, {agent}: {said}." for agent, said in rung]
    again = {plain(row.get("agent")): None for row in rows if (row.get("rerun") or {}).get("unpublished") is False}
    if again:
        notes.append(
            "Run again on the public tasks, since their world is recorded data or ships with the package: "
            f"{', '.join(again)}. They count as replayed; plans become a rerun by an outcome table that nobody else has."
        )
    broken = list(dict.fromkeys(plain(row.get("agent")) for row in rows if is_void(row)))
    if broken:
        notes.append(f"Not ranked, since the infrastructure broke all of their episodes: {', '.join(broken)}.")
    void = sum(int(row.get("void_episodes") or 0) for row in rows)
    missing = sum(int(row.get("missing_episodes") or 0) for row in rows)
    if void:
        notes.append(f"{void:,} episodes are void, broken by the infrastructure, and left out of every figure.")
        notes += [f"Void: {plain(reason)}" for reason in void_reasons(rows)[:MAX_REASONS]]
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
    describe_with: Callable[[Row], str],
) -> dict[str, Any]:
    if is_simulated(row):
        under = "simulated model"
    elif is_reference(row):
        under = "bound, not ranked"
    else:
        under = plain(row["model"]) if row.get("model") else "no language model"
    submission = row.get("submission")
    if isinstance(submission, Mapping) and submission.get("model"):
        under += f", thinks with {plain(submission['model'])} by its own account"
    if row.get("verified"):
        under += f", {row['verified'] if isinstance(row['verified'], str) else 'replayed'}"
    return {
        "reference": is_reference(row),
        "ranks": [(name, ranks[name][id(row)][1]) for name in gradings],
        "env": row.get("env", ""),
        "agent": str(row.get("agent")),
        "page": None if agent_page is None else agent_page(row),
        "under": under,
        "about": describe_with(row),
        "condition": condition_label(row, leaderboard),
        "cells": [_cell(row, column, peers, column is columns[0]) for column in columns],
    }


def _cell(row: Row, column: Column, peers: Sequence[Row], main: bool) -> list[dict[str, Any]]:
    """Write the figures of a cell: one, or one for each grading."""
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
        "best": value is not None and not is_reference(row) and _is_best(row, column, metric, peers),
        "strip": strip,
        "ends": None if ends is None else [written(end, column.kind) for end in ends],
    }


def _is_best(row: Row, column: Column, metric: str, peers: Sequence[Row]) -> bool:
    """Return whether the row has the best figure of its column, or one that cannot be told from it."""
    found = best(peers, column, metric)
    value, ends = figure(row, metric), interval(row, metric)
    if found is None or value is None or not (found or column.metric == "regret"):
        return False  # nobody achieved anything
    return value == found or (column.metric in _NOISY and ends is not None and ends[0] <= found <= ends[1])


def _references(whole: Mapping[str, Any], shown: Mapping[str, Any]) -> list[dict[str, Any]]:
    """List rules and bounds of another track in the same world: lines to measure against, without a rank."""
    if shown.get("track") != "text":
        return []
    world = (shown.get("scenario") or {}).get("digest")
    found = []
    for view in track_documents(whole):
        if view.get("track") == "numbers" and (view.get("scenario") or {}).get("digest") == world:
            found = [row for row in view["rows"] if row.get("agent") in _LINES]
    return [
        {
            "label": f"{plain(row['agent'])} (numbers)",
            "x": (row.get("budget") or {}).get("price"),
            "figures": {name: figure(row, name) for name in (PASS_RATE, f"judged_{PASS_RATE}")},
        }
        for row in found
    ]


def _gains(track: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Write what the additions bring."""

    def change(value: float) -> str:
        return f"{'+' if value > 0 else ''}{written(value, 'rate')}"

    def cost(row: Mapping[str, Any], grading: str) -> str:
        sides = [row[f"{grading}_{side}"] for side in ("without", "with")]
        return "–" if None in sides else f"{written(sides[0], 'number')} → {written(sides[1], 'number')}"

    return [
        {
            **row,
            "changes": [change(row[grading]) for grading in GRADINGS],
            "gaining": [f"{row[f'{grading}_gaining']} of {row['strategies']}" for grading in GRADINGS],
            "costs": [cost(row, grading) for grading in GRADINGS],
        }
        for row in gains(track)
    ]


def _data(
    rows: Sequence[Row],
    groups: Sequence[Sequence[Row]],
    columns: Sequence[Column],
    ranks: Mapping[str, Mapping[int, tuple[int, str]]],
    leaderboard: Mapping[str, Any],
    scenario: Mapping[str, Any],
    references: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the data that the script sorts by and draws from."""
    bases = list(dict.fromkeys(_base(row) for row in rows if not is_reference(row)))
    kinds = list(dict.fromkeys(_addition(row) for row in rows if not is_reference(row)))
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
        "references": list(references),
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
                "colour": 0 if is_reference(of_key[agent, model]) else bases.index(_base(of_key[agent, model])) % COLOURS,
                "shape": 8 if is_reference(of_key[agent, model]) else kinds.index(_addition(of_key[agent, model])) % 8,
                "area": {
                    "strict": figure(of_key[agent, model], "budget_area"),
                    "judge": figure(of_key[agent, model], "judged_budget_area"),
                },
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
