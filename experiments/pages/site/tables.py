"""The site's tables of pairwise comparisons, and of all figures of an agent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from markupsafe import Markup

from ...board.conditions import condition_label, currency_of
from ...board.rows import columns_of, is_reference, shown_name
from ...board.store.runs import Run, RunEntry
from ...board.tracks import track_documents
from ...play.metric_registry import cell, written
from ...play.results import EpisodeResult, outcome
from ...play.statistics import holm, intervals, sign_flip_p_values
from ..html import part

RESAMPLES = 4000
MAX_EPISODES = 2000
"""Pairs are compared on at most this many episodes, the first ones; more would take minutes and change little."""
LEVEL = 0.05

Results = Mapping[str, Sequence[EpisodeResult]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The lead of one entry over another under the same budget."""

    a: RunEntry
    b: RunEntry
    episodes: int
    ahead: float  # pass rate within the budget of `a` less that of `b`
    ci95: tuple[float, float]  # paired bootstrap interval of it
    adjusted_p: float  # p-value of the sign-flip test, adjusted for all pairs under the budget

    @property
    def significant(self) -> bool:
        return self.adjusted_p < LEVEL


Pairs = Mapping[tuple[str, str], Comparison]  # by the ids of both entries


def compare(
    group: Sequence[RunEntry], results: Results, grading: str, seed: int, seeds: int = 1
) -> dict[tuple[str, str], Comparison]:
    """Compare all pairs of a budget's entries by the figure that ranks, with Holm's step-down over the pairs; by the ids of
    both entries, in both orders. Compared are the episodes that every entry has and that are void for none; an entry that met
    other worlds is left out."""
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
        found[one.id, other.id] = Comparison(one, other, count, mean, (low, high), adjusted)
        found[other.id, one.id] = Comparison(other, one, count, -mean, (-high, -low), adjusted)
    return found


def points(value: float) -> str:
    """Write a difference of rates in percentage points, with its sign."""
    shown = written(abs(value), "rate")
    return "0.0" if shown == "0.0" else f"{'+' if value > 0 else '−'}{shown}"


def p_text(value: float) -> str:
    """Write a p-value as a reader sees it."""
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def significance(run: Run, groups: Sequence[Sequence[RunEntry]], compared: Sequence[Pairs]) -> Markup:
    """Draw a matrix for each condition: by how many points the agent of the row is ahead of the agent of the column."""
    matrices = []
    for index, (group, pairs) in enumerate(zip(groups, compared, strict=True)):
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


def figures_table(run: Run, group: Sequence[RunEntry], caption: str) -> Markup:
    """Render all figures of one agent, a column for each condition."""
    rows = []
    track = group[0].row.get("track")
    views = track_documents(run.document)
    view = next((view for view in views if view.get("track") == track), views[0])
    for metric in columns_of(view):
        title = metric.heading(currency_of(view))
        for key, name in ((metric.key, title), (metric.judge, f"{title} (judge)")):
            if key:
                rows.append({"title": name, "cells": [cell(entry.row, key, metric.kind) for entry in group]})
    heads = [condition_label(entry.row, run.document) for entry in group]
    return part("site-figures.html", heads=heads, rows=rows, caption=caption)
