"""The site's pages and tables, but for the ranking, which is the leaderboard's own page.

Every text is escaped by the templates; the scripts write text nodes only.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from markupsafe import Markup

from costgym.experiments.board.conditions import condition_label, currency_of
from costgym.experiments.board.rows import badge, columns_of, is_reference, is_simulated, shown_name
from costgym.experiments.board.store.runs import Run, RunEntry
from costgym.experiments.board.tracks import TRACKS, track_document
from costgym.experiments.pages.agent_notes import describe, papers_of
from costgym.experiments.pages.html import asset, part, render
from costgym.experiments.pages.learning_curves import CURVES_NOTE, curves_of_agent
from costgym.experiments.play.metric_registry import cell, figure, interval, written
from costgym.experiments.play.results import EpisodeResult, outcome
from costgym.experiments.play.statistics import holm, intervals, sign_flip_p_values

RESAMPLES = 4000
MAX_EPISODES = 2000  # on which pairs are compared; more would take minutes and change little
LEVEL = 0.05

Results = Mapping[str, Sequence[EpisodeResult]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The lead of an entry over another under the same budget."""

    other: RunEntry
    episodes: int
    ahead: float  # pass rate within the budget of the entry less that of the other
    ci95: tuple[float, float]  # paired bootstrap interval of it
    adjusted_p: float  # p-value of the sign-flip test, adjusted for all pairs under the budget

    @property
    def significant(self) -> bool:
        return self.adjusted_p < LEVEL


Pairs = Mapping[tuple[str, str], Comparison]  # by the ids of both entries


def compare(
    group: Sequence[RunEntry], results: Results, grading: str, seed: int, seeds: int = 1
) -> dict[tuple[str, str], Comparison]:
    """Compare all pairs of a budget's entries by the figure that ranks, with Holm's step-down; by the ids of both entries, in
    both orders. Episodes count that every entry has and none has void; an entry that met other worlds is left out."""
    rivals = [entry for entry in group if not is_reference(entry.row) and results.get(entry.id)]
    played = {entry.id: {r.episode: r for r in results[entry.id][:MAX_EPISODES] if not r.void} for entry in rivals}
    worlds = {r.episode: (r.task, r.seed) for r in played[rivals[0].id].values()} if rivals else {}
    # in another world a pair would compare luck and not agents
    rivals = [
        e for e in rivals if all(worlds.get(i, world) == world for i, r in played[e.id].items() for world in [(r.task, r.seed)])
    ]
    common = [i for i in worlds if all(i in played[entry.id] for entry in rivals)]
    pairs = list(combinations(range(len(rivals)), 2))
    if not pairs or not common:
        return {}
    outcomes = [[outcome(played[entry.id][i], grading) for entry in rivals] for i in common]
    passed = (np.array(outcomes) == "passed").astype(np.float64)
    ahead = np.stack([passed[:, a] - passed[:, b] for a, b in pairs], axis=1)  # (n_episodes, n_pairs)
    lows, highs = intervals(ahead, np.ones_like(ahead), common, seed, RESAMPLES)
    found: dict[tuple[str, str], Comparison] = {}
    starts = [place for place, i in enumerate(common) if place == 0 or i // seeds > common[place - 1] // seeds]
    p_values = holm(sign_flip_p_values(np.add.reduceat(ahead, starts).T).tolist())
    for place, ((a, b), adjusted) in enumerate(zip(pairs, p_values, strict=True)):
        mean, low, high = float(ahead[:, place].sum()) / len(common), float(lows[place]), float(highs[place])
        one, other, count = rivals[a], rivals[b], len(common)
        found[one.id, other.id] = Comparison(other, count, mean, (low, high), adjusted)
        found[other.id, one.id] = Comparison(one, count, -mean, (-high, -low), adjusted)
    return found


def points(value: float) -> str:
    """Write a difference of rates in percentage points, with its sign."""
    shown = written(abs(value), "rate")
    return "0.0" if shown == "0.0" else f"{'+' if value > 0 else '−'}{shown}"


def p_text(value: float) -> str:
    """Write a p-value as a reader sees it."""
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def significance(run: Run, conditions: Sequence[tuple[Sequence[RunEntry], Pairs]]) -> Markup:
    """Draw a matrix for each condition: by how many points the agent of the row is ahead of the agent of the column."""
    matrices = []
    for index, (group, pairs) in enumerate(conditions):
        shown = [entry for entry in group if any(entry.id in key for key in pairs)]
        if shown:
            rows = [{"agent": shown_name(a.row), "cells": [_pair(a, b, pairs) for b in shown]} for a in shown]
            label = condition_label(group[0].row, run.document)
            matrices.append({"index": index, "label": label, "agents": [shown_name(e.row) for e in shown], "rows": rows})
    return part("site-significance.html", matrices=matrices) if matrices else Markup("")


def _pair(a: RunEntry, b: RunEntry, pairs: Pairs) -> dict[str, str]:
    if a is b:
        return {"kind": "self", "said": "", "shown": "·", "p": ""}
    pair = pairs.get((a.id, b.id))
    if pair is None:
        return {"kind": "", "said": "", "shown": "–", "p": ""}
    low, high = pair.ci95
    kind = ("ahead" if pair.ahead > 0 else "behind") if pair.significant else "open"
    said = f"{p_text(pair.adjusted_p)}, 95 % interval {points(low)} to {points(high)}, {pair.episodes:,} episodes"
    return {"kind": kind, "said": said, "shown": points(pair.ahead), "p": p_text(pair.adjusted_p)}


def figures_table(run: Run, group: Sequence[RunEntry]) -> Markup:
    """Render all figures of one agent, a column for each condition."""
    rows = []
    view = track_document(run.document, group[0].row.get("track"))
    for metric in columns_of(view):
        title = metric.heading(currency_of(view))
        for key, name in ((metric.key, title), (metric.judge, f"{title} (judge)")):
            if key:
                rows.append({"title": name, "cells": [cell(entry.row, key, metric.kind) for entry in group]})
    heads = [condition_label(entry.row, run.document) for entry in group]
    return part("site-figures.html", heads=heads, rows=rows)


POLICY = "default-src 'none'; style-src 'self' file: 'unsafe-inline'; script-src 'self' file:"
OUTCOMES = ("passed", "failed", "over budget", "void")


def title_of(run: Run) -> str:
    """Name a run in a few words."""
    document = run.document
    scenario = document.get("scenario") or {}
    return f"{document.get('suite', '')}, {scenario.get('name', '')}, seed {document.get('seed', '')}"


def slug(name: object, key: object = "") -> str:
    """Turn a name into a part of a file's name: readable, and its own even where others read alike."""
    words = re.sub(r"[^a-z0-9]+", "-", str(name).lower()).strip("-")[:40]
    return f"{words or 'x'}-{hashlib.blake2b(repr((name, key)).encode('utf-8', 'surrogatepass'), digest_size=3).hexdigest()}"


def agent_file(row: Mapping[str, Any]) -> str:
    """Return the file of the page of a row's agent."""
    key = (row.get("model"), row["track"]) if row.get("track") else row.get("model")
    return f"agent-{slug(row.get('agent'), key)}.html"


def navigation(here: str, several: bool) -> Markup:
    """Render the bar on top: where one is and where one can go."""
    links = [("../index.html", "All runs")] if several else []
    links += [("index.html", "Ranking"), ("episodes.html", "Episodes")]
    return part("site-bar.html", links=links, here=here)


def _page(kind: str, title: str, bar: Markup, assets: str, body: Markup, **given: Any) -> str:
    """Render a document around a body; `given` are scripts, styles or a policy other than usual."""
    usual = {"policy": POLICY, "scripts": (), "styles": Markup("")}
    return render("site.html", page=kind, title=title, bar=bar, assets=assets, body=body, **{**usual, **given})


def runs_page(listed: Sequence[tuple[str, Run]], assets: str) -> str:
    """Render the list of runs, each with where its pages are."""
    rows = []
    for folder, run in listed:
        track = track_document(run.document)
        main = columns_of(track)[0]
        ranked = [row for row in track["rows"] if not is_reference(row)]
        first = max(ranked, key=lambda row: figure(row, main.key) or 0.0, default=None)
        best = "–"
        if first is not None:
            best = f"{shown_name(first)}, {written(figure(first, main.key), main.kind)} {main.unit}".rstrip()
        rows.append(
            {
                "folder": folder,
                "title": title_of(run),
                "about": (run.document.get("scenario") or {}).get("description", ""),
                "entries": len(run.entries),
                "episodes": sum(int(entry.row.get("episodes") or 0) for entry in run.entries),
                "best": best,
                "version": run.document.get("version", ""),
            }
        )
    bar = part("site-bar.html", links=[("index.html", "All runs")], here="All runs")
    return _page("runs", "costgym results", bar, assets, part("site-runs.html", rows=rows))


def episodes_page(run: Run, bar: Markup, assets: str) -> str:
    """Render the list of episodes; the script fills it."""
    scripts = ["data/run.js", f"{assets}/episodes.js"]
    return _page("episodes", f"Episodes: {title_of(run)}", bar, assets, part("site-episodes.html"), scripts=scripts)


def episode_page(run: Run, bar: Markup, assets: str, images: bool = False) -> str:
    """Render the viewer; the script shows the episode that the address names. It may show images only where a run has some."""
    scripts = ["data/run.js", f"{assets}/gantt.js", f"{assets}/episode.js"]
    policy = f"{POLICY}; img-src data:" if images else POLICY
    return _page("episode", f"Episode: {title_of(run)}", bar, assets, part("site-episode.html"), scripts=scripts, policy=policy)


def agent_page(
    run: Run,
    group: Sequence[RunEntry],
    results: Results,
    compared: Pairs,
    replayed: Mapping[str, tuple[int, int]],
    bar: Markup,
    assets: str,
) -> str:
    """Render the page of one agent under all conditions, from its entries in their order, comparisons with other agents by the
    ids of both entries, and how many of each entry's episodes were replayed for the site and agreed with their record."""
    row = group[0].row
    agent = shown_name(row)
    kind = "a bound, not ranked" if is_reference(row) else "simulated model" if is_simulated(row) else row.get("model") or ""
    facts = {
        "Model": kind or "no language model",
        "Environment": row.get("env"),
        "Episodes": " + ".join(f"{int(entry.row.get('episodes') or 0):,}" for entry in group),
        "Replay": _replay_fact(group, replayed),
        "Track": TRACKS[row["track"]].title if row.get("track") in TRACKS else "",
    }
    submission = row.get("submission") or {}
    if submission:
        facts |= {"Submitted by": submission.get("name"), "Contact": submission.get("contact")}
        more = ("organisation", "date", "url", "code", "commit", "cost", "model", "release")
        facts |= {name.capitalize(): submission.get(name) for name in more if submission.get(name)}
    curves = curves_of_agent(row)
    body = part(
        "site-agent.html",
        agent=agent,
        about=describe(row),
        papers=papers_of(row),
        facts=[(name, value) for name, value in facts.items() if value],
        figures=figures_table(run, group),
        outcome_names=OUTCOMES[:3],
        outcomes=[_outcomes(run, entry, results.get(entry.id, ())) for entry in group],
        errors=_errors(group, results),
        rivals=_rivals(run, group, compared),
        curves=curves,
        curves_note=CURVES_NOTE,
    )
    return _page("agent", f"{agent}: {title_of(run)}", bar, assets, body, styles=Markup(asset("curves.css") if curves else ""))


def _replay_fact(group: Sequence[RunEntry], replayed: Mapping[str, tuple[int, int]]) -> str:
    if all(entry.verified for entry in group):
        return badge(group[0].row) or "verified"
    shown, agreed = (sum(replayed.get(entry.id, (0, 0))[place] for entry in group) for place in (0, 1))
    return f"agrees with {agreed:,} of {shown:,} episodes" if shown else "no trajectories here"


def _outcomes(run: Run, entry: RunEntry, results: Sequence[EpisodeResult]) -> dict[str, Any]:
    grading = str(entry.row.get("grading") or "strict")
    counts = Counter(outcome(result, grading) for result in results)
    total = sum(counts.values()) or 1
    return {
        "label": condition_label(entry.row, run.document),
        "entry": entry.id,
        "said": ", ".join(f"{counts[name]:,} {name}" for name in OUTCOMES if counts[name]),
        "bars": [(name.replace(" ", "-"), 100 * counts[name] / total) for name in OUTCOMES if counts[name]],
    }


def _errors(group: Sequence[RunEntry], results: Results) -> dict[str, Any] | None:
    """Count what went wrong with its calls, most frequent first."""
    counts: Counter[str] = Counter()
    attempts = 0
    for entry in group:
        for result in results.get(entry.id, ()):
            counts.update(dict(result.errors_by_status))
            attempts += result.attempts
    if not counts:
        return None
    most = max(counts.values())
    rows = [
        {"status": name.replace("_", " "), "width": 100 * count / most, "count": count, "share": 100 * count / attempts}
        for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
    return {"attempts": attempts, "rows": rows}


def _rivals(run: Run, group: Sequence[RunEntry], compared: Pairs) -> list[dict[str, Any]]:
    """Compare it with the others, a table for each condition."""
    tables = []
    for entry in group:
        pairs = [pair for (mine, _), pair in compared.items() if mine == entry.id]
        rows = [
            {
                "page": agent_file(pair.other.row),
                "agent": shown_name(pair.other.row),
                "ahead": points(pair.ahead),
                "ends": (points(pair.ci95[0]), points(pair.ci95[1])),
                "p": p_text(pair.adjusted_p),
                "said": ("ahead" if pair.ahead > 0 else "behind") if pair.significant else "not significant",
            }
            for pair in sorted(pairs, key=lambda pair: (pair.ahead, str(pair.other.row["agent"])))
        ]
        if rows:
            tables.append({"entry": entry.id, "label": condition_label(entry.row, run.document), "rows": rows})
    return tables


def _where(row: Mapping[str, Any], run: Run) -> str:
    """Write what an entry was played under, its track first where there are several."""
    label = condition_label(row, run.document)
    several = len(run.document.get("tracks") or ()) > 1
    return f"{TRACKS[row['track']].title}, {label}" if several and row.get("track") in TRACKS else label


def meta(run: Run, pieces: Mapping[str, int], grading: str) -> dict[str, Any]:
    """Return what the scripts know of a run: its entries, and how many episodes of each are there in detail."""
    scenario = run.document.get("scenario") or {}
    main = columns_of(track_document(run.document))[0]
    return {
        "title": title_of(run),
        "currency": scenario.get("currency", ""),
        "grading": grading,
        "share": "Facts, %" if main.kind == "rate" else "Task score, %",
        "entries": [
            {
                "id": entry.id,
                "agent": shown_name(entry.row),
                "page": agent_file(entry.row),
                "label": condition_label(entry.row, run.document),
                "track": str(entry.row.get("track", "")),
                "where": _where(entry.row, run),
                "budget": dict(entry.row.get("budget") or {}),
                "reference": is_reference(entry.row),
                "simulated": is_simulated(entry.row),
                "episodes": int(entry.row.get("episodes") or 0),
                "detailed": pieces.get(entry.id, 0),
                "verified": entry.verified,
                "rate": figure(entry.row, "pass_rate_under_budget"),
                "ci95": interval(entry.row, "pass_rate_under_budget"),
            }
            for entry in run.entries
        ],
    }
