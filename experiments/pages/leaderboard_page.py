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
    by_condition,
    condition_label,
    condition_places,
    currency_of,
    ranking_metric,
    row_key,
    settings_of,
    shown_first,
)
from ..board.rows import (
    MAX_REASONS,
    badge,
    best,
    columns_of,
    is_metered,
    is_ranked,
    is_reference,
    is_simulated,
    is_void,
    reasons,
    shown_name,
)
from ..board.tracks import TRACKS, track_documents, track_files
from ..play.metric_registry import REGISTRY, Metric, Row, cell, figure, interval, plain, written
from ..play.metrics import GRADINGS
from .agent_notes import describe, judge_note, papers_behind
from .findings import finding, gains
from .html import asset, embedded, render
from .learning_curves import curves_section
from .opencatp_figures import plan_figures
from .reliability import reliability_section
from .robustness import robustness_section
from .writes_section import writes_section

_GRADING_TITLES = {"strict": "Strict", "judge": "Judge"}
_NOISY = frozenset({PASS_RATE, "quality_of_plan"})
_LINES = ("greedy", "oracle-informed", "oracle")
COLOURS, BOUND_COLOUR = 12, 7
_EXPLAINED = (
    ("Strict", "an answer passes if it holds every fact that was asked for; nothing else counts."),
    (
        "Judge",
        "a seeded stand-in for the model that judges answers in the papers: a partial answer passes with a probability that "
        "rises with its share of the facts, and so do some answers that give a good reason for giving up. It raises all "
        "pass rates, most of all those of agents that summarise what little they have.",
    ),
)
_CHECKED = (
    "Replayed: every figure of the row follows from recorded actions that were played again here. This does not prove that the "
    "agent chose them without knowing the outcome. Rerun: the agent itself was run again, on seeds and in worlds that nobody "
    "knew before, in a separate process that receives observations only, and the row is ranked by that run: by what it comes "
    "to in this world, measured by reference agents that played in both. The claim is confirmed if it lies within five points "
    "of that (two one-sided tests at 5 %), refuted if it is higher by a test at 1 %, else undecided. The secret behind "
    "those seeds, its hash and the actions of the rerun are kept with the entry, and the actions were replayed here too. That "
    "this agent took them is the word of the leaderboard's maintainer."
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
    """

    policy: str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    styles: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()
    bar: Markup = NOTHING
    sections: Markup = NOTHING
    agent_page: Callable[[Row], str] | None = None


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
    groups = by_condition(leaderboard.get("rows") or [], leaderboard, grading)
    rows = [row for group in groups for row in group]
    scenario = leaderboard.get("scenario")
    scenario = scenario if isinstance(scenario, Mapping) else {"name": scenario} if scenario else {}
    columns = columns_of(leaderboard)
    gradings = GRADINGS if columns[0].judge else (grading,)
    ranks = {name: _ranks(rows, leaderboard, name) for name in GRADINGS}
    peers = {id(row): group for group in groups for row in group}
    budgets_alone = all(not settings_of(row, leaderboard) for row in rows)
    drawn = ranking_metric(leaderboard, "strict") == PASS_RATE and budgets_alone
    varied = "Budget" if budgets_alone else "Condition"
    currency = currency_of(leaderboard)
    return render(
        "page.html",
        context=context,
        css=Markup(asset("page.css")),
        js=Markup(asset("page.js")),
        title=f"costgym leaderboard: {leaderboard.get('suite', '')}, seed {leaderboard.get('seed', '')}",
        grading=grading,
        heading=TRACKS[here].title if here in TRACKS else "Tool-using agents",
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
        heads=_heads(columns, currency, varied),
        rows=[_row(row, leaderboard, columns, peers[id(row)], ranks, gradings, context.agent_page) for row in rows],
        notes=_notes(rows),
        drawn=drawn,
        simulated_mark=" † simulated language model." if any(is_simulated(row) for row in rows) else "",
        sections=context.sections + plan_figures(leaderboard, _colours(rows)) + curves_section(rows),
        robustness=writes_section(leaderboard) + robustness_section(leaderboard) + reliability_section(leaderboard),
        gains=_gains(leaderboard),
        explained=_EXPLAINED if len(gradings) > 1 else (),
        checked=_CHECKED if any(row.get("verified") for row in rows) else "",
        columns=[{"key": metric.key, "title": metric.heading(currency), "meaning": metric.meaning} for metric in columns],
        papers=papers_behind(rows),
        footer=(
            "95 % intervals: Wilson’s for shares, with the episodes of one task counted together, and percentiles "
            "of a paired bootstrap over episodes for all other figures, in which every agent is resampled alike. "
            f"Every figure counts all episodes that were asked for. Made by costgym {leaderboard.get('version', '')} from "
            f"leaderboard.json ({leaderboard.get('format', '')}); the same seed gives the same page."
        ),
        data=embedded(_data(rows, groups, columns, ranks, leaderboard, _references(whole, leaderboard))),
    )


def _base(row: Row) -> str:
    """Return an agent's name without its additions; agents with the same base share a colour."""
    return str(row.get("agent")).split(" (")[0].split("+")[0]


def _colours(rows: Sequence[Row]) -> dict[str, int]:
    """The number of each agent's colour, in the table's marks and in the figures alike."""
    bases = list(dict.fromkeys(_base(row) for row in rows if not is_reference(row)))
    return {str(row.get("agent")): BOUND_COLOUR if is_reference(row) else bases.index(_base(row)) % COLOURS for row in rows}


def _addition(row: Row) -> str:
    """Return what is added to an agent, and who handed it in; these share a mark."""
    return str(row.get("agent")).removeprefix(_base(row))


def _ranks(rows: Sequence[Row], leaderboard: Mapping[str, Any], grading: str) -> dict[int, tuple[int, str]]:
    """Return place in the whole order and rank within the condition, by the identity of the row."""
    found: dict[int, tuple[int, str]] = {}
    place = itertools.count()
    for group in by_condition(rows, leaderboard, grading):
        blocks = {True: itertools.count(1), False: itertools.count(1)}
        for row in group:
            metered = is_metered(row)
            rank = f"{'' if metered else 'u'}{next(blocks[metered])}" if is_ranked(row) else "–"
            found[id(row)] = next(place), rank
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
        "Judge": judge_note(leaderboard),
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


def _ranking_note(rows: Sequence[Row], main: Metric) -> str:
    parts = [
        f"Ranked by {main.heading()[0].lower()}{main.heading()[1:]}, then by cost. Bold: the best ranked agent under the same "
        "conditions, and those within noise of it."
    ]
    if any(is_reference(row) for row in rows):
        parts.append("An oracle reads what the world hides: it is a bound and has no rank.")
    return " ".join(parts)


def _notes(rows: Sequence[Row]) -> list[str]:
    notes = []
    if any(is_simulated(row) for row in rows):
        notes.append(
            "Simulated model: a stand-in without weights that errs at set rates. It compares strategies under budgets; its "
            "figures say nothing about a real language model."
        )
    if not all(map(is_metered, rows)):
        notes.append(
            "Unmetered (u1, u2, …): nobody but the agent counted its tokens, beyond a floor of what it was shown and wrote. "
            "Such rows are ranked behind the others, among themselves, and are never bold."
        )
    rung = {(plain(row.get("agent")), plain(each)): None for row in rows for each in row.get("alarms") or ()}
    notes += [f"Alarm, {agent}: {said}." for agent, said in rung]
    again = {plain(row.get("agent")): None for row in rows if (row.get("rerun") or {}).get("unpublished") is False}
    if again:
        notes.append(
            "Run again on the public tasks, because their world is recorded data or ships with the package: "
            f"{', '.join(again)}. They count as replayed; plans count as a rerun if they were run on a secret outcome table."
        )
    loose = {plain(row.get("agent")): None for row in rows if (row.get("rerun") or {}).get("sandboxed") is False}
    if loose:
        notes.append(
            f"Run again without a sandbox, so their own code could look around: {', '.join(loose)}. They count as replayed."
        )
    broken = list(dict.fromkeys(plain(row.get("agent")) for row in rows if is_void(row)))
    if broken:
        notes.append(f"Not ranked, because the infrastructure broke all of their episodes: {', '.join(broken)}.")
    void = sum(int(row.get("void_episodes") or 0) for row in rows)
    missing = sum(int(row.get("missing_episodes") or 0) for row in rows)
    if void:
        notes.append(f"{void:,} episodes are void, broken by the infrastructure: left out, or failures in handed-in rows.")
        notes += [f"Void: {plain(reason)}" for reason in reasons(rows)[:MAX_REASONS]]
    crashed = sum(int(row.get("crashed_episodes") or 0) for row in rows)
    if crashed:
        said = "".join(f" The first message: {plain(reason)}." for reason in reasons(rows, "crash_reasons")[:1])
        notes.append(f"{crashed:,} episodes count as failures because the agent's own code crashed.{said}")
    if missing:
        notes.append(f"{missing:,} episodes have no record and count as failures.")
    return notes


def _heads(columns: Sequence[Metric], currency: str, condition: str) -> list[dict[str, str]]:
    def head(key: str, title: str, classes: str, shown: str, first: str = "up", meaning: str = "") -> dict[str, str]:
        return {"key": key, "title": title, "classes": classes, "shown": shown, "first": first, "meaning": meaning}

    found = [
        head("rank", "Rank", "rank", "#"),
        head("agent", "Agent", "agent", "Agent"),
        head("condition", condition, "limits", condition),
    ]
    for metric in columns:
        classes = "figure main" if metric is columns[0] else "figure"
        first = "down" if metric.higher_is_better else "up"
        found.append(head(metric.key, metric.name, classes, metric.heading(currency), first, metric.meaning))
    return found


def _row(
    row: Row,
    leaderboard: Mapping[str, Any],
    columns: Sequence[Metric],
    peers: Sequence[Row],
    ranks: Mapping[str, Mapping[int, tuple[int, str]]],
    gradings: Sequence[str],
    agent_page: Callable[[Row], str] | None,
) -> dict[str, Any]:
    submission, rerun = row.get("submission"), row.get("rerun")
    model = plain(row["model"]) if row.get("model") else "no language model"
    under = ["simulated model" if is_simulated(row) else "bound, not ranked" if is_reference(row) else model]
    if isinstance(submission, Mapping) and submission.get("model"):
        under.append(f"claims to use {plain(submission['model'])}")
    if row.get("verified") and not badge(row):
        under.append(row["verified"] if isinstance(row["verified"], str) else "replayed")
    if isinstance(rerun, Mapping):
        under.append(f"claim {plain(rerun.get('claim'))}")
    if not is_metered(row):
        under.append("unmetered")
    return {
        "reference": is_reference(row),
        "ranks": [(name, ranks[name][id(row)][1]) for name in gradings],
        "env": row.get("env", ""),
        "agent": shown_name(row),
        "badge": badge(row),
        "page": None if agent_page is None else agent_page(row),
        "under": ", ".join(under),
        "about": describe(row),
        "condition": condition_label(row, leaderboard),
        "cells": [_cell(row, column, peers, column is columns[0]) for column in columns],
    }


def _cell(row: Row, metric: Metric, peers: Sequence[Row], main: bool) -> list[dict[str, Any]]:
    """Write the figures of a cell: one, or one for each grading."""
    if not metric.judge:
        return [_figure(row, metric, metric.key, peers, main, "")]
    return [_figure(row, metric, metric.key_under(grading), peers, main, grading) for grading in GRADINGS]


def _figure(row: Row, metric: Metric, key: str, peers: Sequence[Row], main: bool, grading: str) -> dict[str, Any]:
    value, ends = figure(row, key), interval(row, key)
    strip = None
    if main and value is not None and metric.kind == "rate":
        low, high = (100 * min(1.0, max(0.0, end)) for end in ends or (value, value))
        strip = {"low": low, "high": high, "at": 100 * min(1.0, max(0.0, value))}
    return {
        "grading": grading,
        **cell(row, key, metric.kind),
        "best": value is not None and not is_reference(row) and is_metered(row) and _is_best(row, metric, key, peers),
        "strip": strip,
    }


def _is_best(row: Row, metric: Metric, key: str, peers: Sequence[Row]) -> bool:
    """Return whether the row has the best figure of its column, or one that cannot be told from it."""
    found = best(peers, metric, key)
    value, ends = figure(row, key), interval(row, key)
    if not found or value is None:
        return False  # nobody achieved anything
    return value == found or (metric.key in _NOISY and ends is not None and ends[0] <= found <= ends[1])


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
            "label": f"{plain(row['agent'])} ({TRACKS['numbers'].title})",
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
    columns: Sequence[Metric],
    ranks: Mapping[str, Mapping[int, tuple[int, str]]],
    leaderboard: Mapping[str, Any],
    references: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the data that the script sorts by and draws from."""
    colours = _colours(rows)
    kinds = list(dict.fromkeys(_addition(row) for row in rows if not is_reference(row)))
    keys = list(dict.fromkeys((row.get("agent"), row.get("model")) for row in rows))
    names = [agent for agent, _ in keys]
    currency = currency_of(leaderboard)
    of_key = {(row.get("agent"), row.get("model")): row for row in rows}
    axis = max(RESOURCES, key=lambda name: len({(row.get("budget") or {}).get(name) for row in rows}))
    places = condition_places({**leaderboard, "rows": rows})
    numbers = {
        key: number for number, key in enumerate(sorted({row_key(row, leaderboard) for row in rows}, key=places.__getitem__))
    }
    metrics = [key for metric in columns for key in (metric.key, metric.judge) if key]
    return {
        "axis": axis,
        "references": list(references),
        "unit": currency if axis == "price" else "s" if axis == "seconds" else "",
        "names": {key: REGISTRY[key].heading(currency) for key in (PASS_RATE, "average_cost")},
        "judged": {metric.key: metric.judge for metric in columns if metric.judge},
        "conditions": [
            {"label": condition_label(group[0], leaderboard), "price": (group[0].get("budget") or {}).get("price")}
            for group in groups
        ],
        "series": [
            {
                "label": plain(shown_name(of_key[agent, model])) + ("" if names.count(agent) == 1 else f", {plain(model)}"),
                "simulated": is_simulated(of_key[agent, model]),
                "reference": is_reference(of_key[agent, model]),
                "colour": colours[str(agent)],
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
                "rest": budget_label(
                    {name: limit for name, limit in (row.get("budget") or {}).items() if name != axis}, currency
                ),
                "place": {name: ranks[name][id(row)][0] for name in GRADINGS},
                "figures": {metric: figure(row, metric) for metric in metrics},
                "ci95": {metric: ends for metric in metrics if (ends := interval(row, metric))},
            }
            for row in rows
        ],
    }
