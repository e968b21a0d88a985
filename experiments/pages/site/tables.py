"""Further tables of the site: pairwise comparisons, and the columns of the paper that a suite follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from markupsafe import Markup

from ...board.conditions import condition_label
from ...board.metric_columns import columns_of, figure, interval, is_reference, is_simulated, written
from ...board.published import published
from ...board.store.runs import Run, RunEntry
from ...board.tracks import track_documents
from ...play.results import EpisodeResult
from ...play.statistics import intervals, swap_p_values
from ..html import part

RESAMPLES = 4000
MAX_EPISODES = 2000
"""Pairs are compared on so many episodes at most, the first; more would take minutes and say the same."""
LEVEL = 0.05

Results = Mapping[str, Sequence[EpisodeResult]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The lead of one entry over another under the same budget.

    Attributes:
        a, b: the two.
        episodes: in which both were compared.
        ahead: pass rate in budget of `a` less that of `b`.
        ci95: paired bootstrap interval of it.
        adjusted_p: p-value of a paired permutation test, adjusted for all pairs under the budget.
        floor: the smallest that it can be, with so many permutations and pairs.
    """

    a: RunEntry
    b: RunEntry
    episodes: int
    ahead: float
    ci95: tuple[float, float]
    adjusted_p: float
    floor: float = 0.0

    @property
    def significant(self) -> bool:
        return self.adjusted_p < LEVEL


def compare(group: Sequence[RunEntry], results: Results, grading: str, seed: int) -> dict[tuple[str, str], Comparison]:
    """Compare all pairs of a budget's entries by the figure that ranks, with Holm's step-down over the pairs.

    Compared are the episodes that every entry has and that are void for none; an entry that met other worlds is left out.

    Args:
        group: entries under one budget.
        results: every entry's episodes, in order.
        grading: that ranks.
        seed: of bootstrap and permutations.

    Returns:
        By the ids of both entries, in both orders.
    """
    rivals = [entry for entry in group if not is_reference(entry.row) and results.get(entry.id)]
    played = {entry.id: {r.episode: r for r in results[entry.id][:MAX_EPISODES] if not r.void} for entry in rivals}
    worlds = {r.episode: (r.task, r.seed) for r in played[rivals[0].id].values()} if rivals else {}
    rivals = [
        e for e in rivals if all(worlds.get(i, world) == world for i, r in played[e.id].items() for world in [(r.task, r.seed)])
    ]
    common = [i for i in worlds if all(i in played[entry.id] for entry in rivals)]
    pairs = list(combinations(range(len(rivals)), 2))
    if not pairs or not common:
        return {}
    passed = np.array([[_passed(played[entry.id][i], grading) for entry in rivals] for i in common], dtype=np.float64)
    ahead = np.stack([passed[:, a] - passed[:, b] for a, b in pairs], axis=1)  # (n_episodes, n_pairs)
    lows, highs = intervals(ahead, np.ones_like(ahead), common, seed, RESAMPLES)
    p_values = swap_p_values(ahead, common, seed, RESAMPLES)
    floor = min(1.0, float(p_values.min()) * len(pairs)) if p_values.min() <= 1.0 / (RESAMPLES + 1.0) else 0.0
    found: dict[tuple[str, str], Comparison] = {}
    for place, ((a, b), adjusted) in enumerate(zip(pairs, _holm(p_values.tolist()), strict=True)):
        mean, low, high = float(ahead[:, place].sum()) / len(common), float(lows[place]), float(highs[place])
        one, other, count = rivals[a], rivals[b], len(common)
        found[one.id, other.id] = Comparison(one, other, count, mean, (low, high), adjusted, floor)
        found[other.id, one.id] = Comparison(other, one, count, -mean, (-high, -low), adjusted, floor)
    return found


def _passed(result: EpisodeResult, grading: str) -> bool:
    return (result.strict if grading == "strict" else result.judged) and result.within_budget


def _holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values for all of them, after Holm."""
    adjusted, highest = [1.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted


def points(value: float) -> str:
    """Write a difference of rates in percentage points, with its sign."""
    shown = written(abs(value), "rate")
    return "0.0" if shown == "0.0" else f"{'+' if value > 0 else '−'}{shown}"


def p_text(value: float, floor: float = 0.0) -> str:
    """Write a p-value as a reader sees it.

    Args:
        value: of a test.
        floor: the smallest that the test can give; a value that small is a bound.
    """
    if value <= floor * (1.0 + 1e-9):
        return f"p ≤ {floor:.2g}"
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def significance(
    run: Run, groups: Sequence[Sequence[RunEntry]], compared: Sequence[Mapping[tuple[str, str], Comparison]]
) -> Markup:
    """Draw a matrix for each condition: by how many points the agent of the row is ahead of the agent of the column."""
    matrices = []
    for index, (group, pairs) in enumerate(zip(groups, compared, strict=True)):
        shown = [entry for entry in group if any(entry.id in key for key in pairs)]
        if shown:
            rows = [{"agent": a.row["agent"], "cells": [_pair(a, b, pairs) for b in shown]} for a in shown]
            label = condition_label(group[0].row, run.document)
            matrices.append({"index": index, "label": label, "agents": [e.row["agent"] for e in shown], "rows": rows})
    return part("site-significance.html", matrices=matrices) if matrices else Markup("")


def _pair(a: RunEntry, b: RunEntry, pairs: Mapping[tuple[str, str], Comparison]) -> dict[str, str]:
    if a is b:
        return {"kind": "self", "said": "", "shown": "·", "p": ""}
    pair = pairs.get((a.id, b.id))
    if pair is None:
        return {"kind": "", "said": "", "shown": "–", "p": ""}
    low, high = pair.ci95
    kind = ("ahead" if pair.ahead > 0 else "behind") if pair.significant else "open"
    said = f"{p_text(pair.adjusted_p, pair.floor)}, 95 % interval {points(low)} to {points(high)}, {pair.episodes:,} episodes"
    return {"kind": kind, "said": said, "shown": points(pair.ahead), "p": p_text(pair.adjusted_p, pair.floor)}


@dataclass(frozen=True, slots=True)
class _Layout:
    """The table of a paper: its figures by metric, and whose published figures stand beside ours."""

    title: str
    note: str
    metrics: tuple[tuple[str, str, str], ...]  # metric, heading, kind
    paper: str = ""


_COST = ("average_cost", "AC", "number")
_BTP = _Layout(
    "As in BTP’s Tables 2 and 3",
    "AC: mean price. RFBC: failures for the budget. PBC: pass rate under the budget constraint. PR: pass rate. Both pass rates "
    "are before the lenient judge, as in the paper. In grey what the paper measured with a real model on ToolBench, where it "
    "has the method: another world, to be compared by its pattern only.",
    (
        _COST,
        ("budget_failure_rate", "RFBC, %", "rate"),
        ("judged_pass_rate_under_budget", "PBC, %", "rate"),
        ("judged_pass_rate", "PR, %", "rate"),
    ),
    "btp",
)
LAYOUTS = {
    "btp": _BTP,
    "toolbench": _BTP,
    "ecoact": _Layout(
        "As in EcoAct’s Table 1",
        "Registering tools one by one keeps their descriptions out of the context: what is saved is tokens. "
        "Change: tokens against the same strategy without it.",
        (
            ("judged_pass_rate", "Pass rate, %", "rate"),
            ("average_tokens", "Tokens", "count"),
            _COST,
            ("average_seconds", "Seconds", "number"),
        ),
    ),
    "deer": _Layout(
        "Deciding as DEER does",
        "Whether the answer, after the decision to search or not and to call or not, is right; and what the decision cost.",
        (("pass_rate", "Right, %", "rate"), ("agent_error_rate", "Agent errors, %", "rate"), _COST),
    ),
    "toolplanner": _Layout(
        "As in ToolPlanner’s Table 5",
        "Tree search beside planning by tags, with each part left out, on instructions of hybrid granularity.",
        (
            ("judged_pass_rate", "Pass rate, %", "rate"),
            ("pass_rate", "All facts, %", "rate"),
            ("agent_error_rate", "Agent errors, %", "rate"),
            ("average_tokens", "Tokens", "count"),
        ),
    ),
}


def suite_tables(run: Run, groups: Sequence[Sequence[RunEntry]]) -> Markup:
    """Render the run's figures in the columns of the paper that its suite follows; empty for a suite that follows
    none."""
    layout = LAYOUTS.get(str(run.document.get("suite")))
    if layout is None or not groups or groups[0][0].row.get("track", "text") not in ("text", "decisions"):
        return Markup("")
    tables = [
        {"index": index, "label": condition_label(group[0].row, run.document), **_suite_table(layout, group)}
        for index, group in enumerate(groups)
    ]
    return part("site-suite.html", title=layout.title, note=layout.note, tables=tables)


def _suite_table(layout: _Layout, group: Sequence[RunEntry]) -> dict[str, Any]:
    budget = group[0].row.get("budget") or {}
    papers = {}
    if layout.paper:
        papers = {row["agent"]: row for row in published(layout.paper) if row["budget"] == budget}
    change = layout is LAYOUTS["ecoact"]
    tokens = {str(entry.row["agent"]): figure(entry.row, "average_tokens") for entry in group}
    titles = [title for _, title, _ in layout.metrics]
    rows = []
    for entry in group:
        row = entry.row
        agent = str(row["agent"])
        cells = [cell(row, metric, kind) for metric, _, kind in layout.metrics]
        if change:
            before, now = tokens.get(agent.replace("+ecoact", "")), tokens.get(agent)
            saved = None if "+ecoact" not in agent or not before or now is None else now / before - 1
            cells.append({"value": "–" if saved is None else points(saved), "ends": None})
        there = papers.get(agent)
        rows.append(
            {
                "agent": agent,
                "simulated": is_simulated(row),
                "reference": is_reference(row),
                "cells": cells,
                "paper": [written(None if there is None else figure(there, metric), kind) for metric, _, kind in layout.metrics]
                if papers
                else [],
            }
        )
    return {"heads": [*titles, *(["Change, %"] if change else [])], "paper_heads": titles if papers else [], "rows": rows}


def cell(row: Mapping[str, Any], metric: str, kind: str) -> dict[str, Any]:
    """Write a figure with the ends of its interval."""
    ends = interval(row, metric)
    shown = None if ends is None else [written(end, kind) for end in ends]
    return {"value": written(figure(row, metric), kind), "ends": shown}


def figures_table(run: Run, group: Sequence[RunEntry], caption: str) -> Markup:
    """Render all figures of one agent, a column for each condition."""
    rows = []
    track = group[0].row.get("track")
    views = track_documents(run.document)
    view = next((view for view in views if view.get("track") == track), views[0])
    for column in columns_of(view):
        for metric, title in ((column.metric, column.title), (column.judged, f"{column.title}, lenient judge")):
            if metric is not None:
                unit = ", %" if column.kind == "rate" else ""
                rows.append({"title": f"{title}{unit}", "cells": [cell(entry.row, metric, column.kind) for entry in group]})
    heads = [condition_label(entry.row, run.document) for entry in group]
    return part("site-figures.html", heads=heads, rows=rows, caption=caption)
