"""The leaderboard as self-contained pages, one a track, each a single HTML file that works from disk.

Its first screen says which agent to take for a budget (`first_screen`), its table holds every figure; both are complete
without a script, which follows the reader's choices in the address. Every name is escaped, and the same leaderboard gives the
same bytes.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from costgym.agents.registry import CLIENT
from costgym.experiments.board.conditions import (
    by_condition,
    condition_label,
    condition_ranks,
    currency_of,
    grading_of,
    ranking_metric,
    row_key,
    seeds_of,
    settings_label,
    shown_first,
)
from costgym.experiments.board.rows import (
    BLOCKS,
    MAX_REASONS,
    UNMETERED,
    badge,
    best,
    block_by_row,
    blocks,
    claim_text,
    columns_of,
    is_metered,
    is_ranked,
    is_reference,
    is_simulated,
    is_void,
    rank_bands,
    reasons,
    shown_name,
    track_files,
    tracks_in_order,
)
from costgym.experiments.board.store.runs import entry_of
from costgym.experiments.board.tracks import TRACKS
from costgym.experiments.pages.agent_notes import describe, judge_note, papers_behind
from costgym.experiments.pages.first_screen import first_screen
from costgym.experiments.pages.html import asset, embedded, render
from costgym.experiments.pages.learning_curves import curves_section
from costgym.experiments.pages.sections import sections_of
from costgym.experiments.pages.table import ALWAYS_SHOWN, csv_of
from costgym.experiments.play.metric_registry import Metric, Row, brief, cell, figure, interval, plain
from costgym.experiments.play.metrics import GRADINGS

COLUMNS = 4  # figures that the table shows at first; a button shows all
CSV = "leaderboard.csv"
EPISODES = "episodes/index.html"
_EXPLAINED = (
    ("Strict", "an answer is a success if it holds every fact that was asked for; nothing else counts."),
    (
        "Judge",
        "a seeded stand-in for the model that judges answers in the papers: the larger the share of the facts "
        "that an answer holds, the more probably it is a success, and so are some answers that give a good reason for giving "
        "up. It raises all success rates, most of all those of agents that summarise what little they have.",
    ),
)
_CHECKED = (
    "Replayed: every figure of the row follows from recorded actions that were played again here. This does not prove that the "
    "agent chose them without knowing the outcome. Rerun: the judge of an epoch ran the agent itself, in a separate process "
    "that receives observations only, in worlds that follow from a secret which nobody outside knew; the row is ranked by that "
    "run, and what the entry had claimed stands beside it. Once the secret is published, anybody can play the run again."
)
NOTHING = Markup("")
Ranks = dict[int, tuple[int, str, str]]  # place in the whole order, rank, and band of ranks, by the identity of the row


def pages_of(leaderboard: Mapping[str, Any], episodes: bool = False) -> dict[str, str]:
    """Render the files beside a `leaderboard.json`, by their names: a page for each track, the first of which is `index.html`,
    with the learning curves of trained agents whose runs are still there, and all rows as a table for spreadsheets. With
    `episodes` the agents' names open the pages of their episodes (`pages.episodes`)."""
    files = track_files(leaderboard)
    return {**{file: page_of(leaderboard, track, episodes) for track, file in files.items()}, CSV: csv_of(leaderboard)}


def page_of(leaderboard: Mapping[str, Any], track: str | None = None, episodes: bool = False) -> str:
    """Render the page of a leaderboard's track (None: the first) as a whole HTML document. Rows may be in any order; a
    `scenario` with name, description and currency, and `verified` rows, are shown where they are there."""
    files, views = track_files(leaderboard), tracks_in_order(leaderboard)
    leaderboard = next((view for view in views if view.get("track") == track), views[0])
    here = str(leaderboard.get("track", ""))
    grading = leaderboard["grading"] if leaderboard.get("grading") in GRADINGS else grading_of(leaderboard.get("rows") or [])
    groups = by_condition(leaderboard.get("rows") or [], leaderboard, grading)
    block = block_by_row(groups)
    rows = sorted((row for group in groups for row in group), key=lambda row: BLOCKS.index(block[id(row)]))
    named = leaderboard.get("scenario") or {}
    scenario = named if isinstance(named, Mapping) else {"name": named}
    columns = _columns(leaderboard)
    gradings = GRADINGS if columns[0].judge else (grading,)
    ranks = {name: _ranks(rows, leaderboard, name) for name in GRADINGS}
    peers = {id(row): group for group in groups for row in group}
    currency = currency_of(leaderboard)
    chosen = shown_first(groups) if groups else 0
    face = first_screen(rows, groups, leaderboard, chosen, grading) if rows else None
    return render(
        "page.html",
        episodes=EPISODES if episodes else "",
        css=Markup(asset("page.css")),
        js=Markup(asset("page.js")),
        title=f"costgym leaderboard: {leaderboard.get('suite', '')}, seed {leaderboard.get('seed', '')}",
        grading=grading,
        heading=TRACKS[here].question if here in TRACKS else "Which agent for your budget?",
        tracks=_track_links(views, files, here) if len(views) > 1 else [],
        track=here,
        sentence=_sentence(rows, groups, leaderboard),
        face=face.html if face else "",
        csv=CSV,
        facts=_facts(leaderboard, rows, scenario),
        about=[TRACKS[here].sees if here in TRACKS else "", plain(scenario.get("description") or "")],
        condition=chosen,
        conditions=len(groups),
        varied=any(settings_label(row, leaderboard) for row in rows),
        ranking_note=_ranking_note(rows, columns[0], ranks),
        heads=_heads(columns, currency),
        more=len(columns) > COLUMNS,
        blocks=[
            {
                "kind": kind,
                "rows": [
                    {"number": number, **_row(row, leaderboard, columns, peers[id(row)], ranks, gradings, episodes)}
                    for number, row in enumerate(rows)
                    if block[id(row)] == kind
                ],
            }
            for kind in BLOCKS
        ],
        notes=_notes(rows),
        sections=[*sections_of(leaderboard), curves_section(leaderboard.get("rows") or ())],
        explained=_EXPLAINED if len(gradings) > 1 else (),
        checked=_CHECKED if any(row.get("verified") for row in rows) else "",
        columns=[{"key": metric.key, "title": metric.heading(currency), "meaning": metric.meaning} for metric in columns],
        papers=papers_behind(rows),
        footer=_footer(leaderboard),
        data=embedded({**(face.data if face else {}), "rows": _sorted_by(rows, columns, ranks, leaderboard)}),
    )


def _track_links(views: Sequence[Mapping[str, Any]], files: Mapping[str, str], here: str) -> list[dict[str, Any]]:
    return [
        {"href": files[str(view["track"])], "title": TRACKS[str(view["track"])].title, "here": view["track"] == here}
        for view in views
    ]


def _footer(leaderboard: Mapping[str, Any]) -> str:
    return (
        "95 % intervals: Wilson’s for shares, with the episodes of one task counted together, and percentiles "
        "of a paired bootstrap over episodes for all other figures, in which every agent is resampled alike. "
        f"Every figure counts all episodes that were asked for. Made by costgym {leaderboard.get('version', '')} from "
        f"leaderboard.json ({leaderboard.get('format', '')}); the same seed gives the same page."
    )


def _columns(leaderboard: Mapping[str, Any]) -> list[Metric]:
    """Return the columns, those of the narrowest terminal first; those that are empty or zero in every row are left out."""
    first, *others = columns_of(leaderboard)
    rows = leaderboard.get("rows") or []
    telling = [m for m in others if any(figure(row, key) for row in rows for key in (m.key, m.judge) if key)]
    early = {*ALWAYS_SHOWN[first.key], "average_cost"}
    return [first, *sorted(telling, key=lambda metric: metric.key not in early)]


def _ranks(rows: Sequence[Row], leaderboard: Mapping[str, Any], grading: str) -> Ranks:
    """Return place in the whole order, rank, and band of ranks, by the identity of the row; simulated models apart."""
    ranks: Ranks = {}
    position = itertools.count()
    metric, seeds = ranking_metric(leaderboard, grading), seeds_of(leaderboard)
    for group in by_condition(rows, leaderboard, grading):
        for kind, block in blocks(group):
            ranked = [row for row in block if is_ranked(row)]
            bands = zip(ranked, rank_bands(ranked, metric, seeds), strict=True)
            of_row = {id(row): (f"{'u' * (kind == UNMETERED)}{rank}", band) for rank, (row, band) in enumerate(bands, 1)}
            for row in block:
                rank, band = of_row.get(id(row), ("–", None))
                ranks[id(row)] = next(position), rank, f"{band[0]}–{band[1]}" if band and band[0] < band[1] else ""
    return ranks


def _sentence(rows: Sequence[Row], groups: Sequence[Sequence[Row]], leaderboard: Row) -> str:
    """Write in plain words what was played, and whether language models were simulated."""
    if not rows:
        return "No episode has been played yet."
    agents = len({(row.get("agent"), row.get("model")) for row in rows})
    counts = sorted({int(row.get("episodes") or 0) for row in rows})
    episodes = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    if len(groups) > 1:
        kind = "conditions" if any(settings_label(row, leaderboard) for row in rows) else "budgets"
        condition = f"under each of {len(groups)} {kind}"
    else:
        condition = f"({condition_label(rows[0], leaderboard)})"
    who = "1 agent played" if agents == 1 else f"{agents} agents played the same"
    played = f"{who} {episodes} episodes {condition}{', with the same luck' * (agents > 1)}."
    if simulated := sum(is_simulated(row) for row in rows):
        whose = "Their language model is" if simulated == len(rows) else "Some language models, marked in the table, are"
        return f"{played} {whose} simulated: such figures compare strategies and say nothing about a real model."
    recorded = " Replayed agents were trained and recorded before." if any(badge(row) for row in rows) else ""
    return (
        f"{played} No language model takes part.{recorded}" if not any(row.get("model") for row in rows) else played + recorded
    )


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


def _ranking_note(rows: Sequence[Row], main: Metric, ranks: Mapping[str, Ranks]) -> str:
    parts = [f"Ranked by {main.heading()[0].lower()}{main.heading()[1:]}, then by cost."]
    if any(band for of_grading in ranks.values() for _, _, band in of_grading.values()):
        parts.append(
            "Below a rank: the ranks that the agent may have, by a paired sign-flip test at 5 % over the same episodes, "
            "adjusted after Holm. Bold: no agent is significantly better."
        )
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
    rung = {(plain(row.get("agent")), plain(alarm)): None for row in rows for alarm in row.get("alarms") or ()}
    notes += [f"Alarm, {agent}: {alarm}." for agent, alarm in rung]
    if any(isinstance(row.get("rerun"), Mapping) for row in rows):
        notes.append(
            "Played by the judge in secret worlds, the same for all: the figures are what was played there. What an entry "
            "claims stands beside them and counts for nothing; of several tries of one identity the mean counts."
        )
    if broken := list(dict.fromkeys(plain(row.get("agent")) for row in rows if is_void(row))):
        notes.append(f"Not ranked, because the infrastructure broke all of their episodes: {', '.join(broken)}.")
    void = sum(int(row.get("void_episodes") or 0) for row in rows)
    missing = sum(int(row.get("missing_episodes") or 0) for row in rows)
    if void:
        notes.append(f"{void:,} episodes are void, broken by the infrastructure: left out, or failures in handed-in rows.")
        notes += [f"Void: {reason}" for reason in reasons(rows)[:MAX_REASONS]]
    if crashed := sum(int(row.get("crashed_episodes") or 0) for row in rows):
        first_message = "".join(f" The first message: {reason}." for reason in reasons(rows, "crash_reasons")[:1])
        notes.append(f"{crashed:,} episodes count as failures because the agent's own code crashed.{first_message}")
    if missing:
        notes.append(f"{missing:,} episodes have no record and count as failures.")
    return notes


def _heads(columns: Sequence[Metric], currency: str) -> list[dict[str, str]]:
    heads = [
        ("rank", "Rank", "rank", "#", "up", ""),
        ("agent", "Agent", "agent", "Agent", "up", ""),
        ("condition", "Condition", "limits", "Condition", "up", ""),
    ]
    for index, metric in enumerate(columns):
        first = "down" if metric.higher_is_better else "up"
        heads.append((metric.key, metric.name, _classes(index), metric.heading(currency), first, metric.meaning))
    names = ("key", "title", "classes", "shown", "first", "meaning")
    return [dict(zip(names, head, strict=True)) for head in heads]


def _classes(index: int) -> str:
    return "figure main" if index == 0 else "figure" if index < COLUMNS else "figure more"


def _row(
    row: Row,
    leaderboard: Mapping[str, Any],
    columns: Sequence[Metric],
    peers: Sequence[Row],
    ranks: Mapping[str, Ranks],
    gradings: Sequence[str],
    episodes: bool,
) -> dict[str, Any]:
    submission, rerun = row.get("submission"), row.get("rerun")
    unseen = "its own loop and model" if str(row["agent"]).startswith(CLIENT) else "no language model"
    model = plain(row["model"]) if row.get("model") else unseen
    under = [] if is_simulated(row) else ["bound, not ranked" if is_reference(row) else model]
    if isinstance(submission, Mapping) and submission.get("model"):
        under.append(f"claims to use {plain(submission['model'])}")
    if row.get("verified") and not badge(row):
        under.append(row["verified"] if isinstance(row["verified"], str) else "replayed")
    if isinstance(rerun, Mapping):
        under.append(claim_text(rerun))
    if not is_metered(row):
        under.append("unmetered")
    elif row.get("metered") is False:
        under.append("tokens by a floor of what it was shown and wrote")
    if row.get("isolated") is False:
        under.append("not isolated: its command could reach other addresses")
    return {
        "reference": is_reference(row),
        "simulated": is_simulated(row),
        "ranks": [(name, *ranks[name][id(row)][1:]) for name in gradings],
        "env": row.get("env", ""),
        "agent": shown_name(row),
        "badge": badge(row),
        "page": f"{EPISODES}#entry={entry_of(row, leaderboard, None).id}" if episodes else "",
        "under": ", ".join(under),
        "about": describe(row),
        "condition": condition_label(row, leaderboard),
        "cells": [
            {"classes": _classes(index), "figures": _cell(row, column, peers, ranks if index == 0 else None)}
            for index, column in enumerate(columns)
        ],
    }


def _cell(row: Row, metric: Metric, peers: Sequence[Row], ranks: Mapping[str, Ranks] | None) -> list[dict[str, Any]]:
    """Write the figures of a cell: one, or one for each grading; `ranks` are those of the column that ranks."""
    figures = []
    for grading in GRADINGS if metric.judge else ("",):
        key = metric.key_under(grading) if grading else metric.key
        value, ends = figure(row, key), interval(row, key)
        strip = None
        if ranks is not None and value is not None and metric.kind == "rate":
            low, high = (100 * min(1.0, max(0.0, end)) for end in ends or (value, value))
            strip = {"low": low, "high": high, "at": 100 * min(1.0, max(0.0, value))}
        if ranks is None:
            leads = value is not None and value == best(peers, metric, key)
        else:
            _, rank, band = ranks[grading or GRADINGS[0]][id(row)]
            leads = bool(value) and (rank == "1" or band.startswith("1–"))
        leads = leads and not is_reference(row) and is_metered(row)
        figures.append({"grading": grading, **cell(row, key, metric.kind, brief), "best": leads, "strip": strip})
    return figures


def _sorted_by(
    rows: Sequence[Row], columns: Sequence[Metric], ranks: Mapping[str, Ranks], leaderboard: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return what the script sorts and filters the rows by."""
    order = condition_ranks({**leaderboard, "rows": rows})
    numbers = {key: n for n, key in enumerate(sorted({row_key(row, leaderboard) for row in rows}, key=order.__getitem__))}
    return [
        {
            "agent": plain(shown_name(row)),
            "condition": numbers[row_key(row, leaderboard)],
            "place": {name: ranks[name][id(row)][0] for name in GRADINGS},
            "figures": {m.key: {name: figure(row, m.key_under(name)) for name in GRADINGS} for m in columns},
        }
        for row in rows
    ]
