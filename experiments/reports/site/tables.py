"""The site's further tables: who really differs from whom, and the columns of the paper that a suite follows."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from ...leaderboard.metric_columns import COLUMNS, figure, interval, is_reference, is_simulated, plain, written
from ...leaderboard.store.runs import Entry, Run, condition
from ...metrics import EpisodeResult
from ...reproduction.published import published
from ...statistics import intervals, swap_p_values

RESAMPLES = 4000
MOST_EPISODES = 2000
"""Pairs are compared on so many episodes at most, the first; more would take minutes and say the same."""
LEVEL = 0.05

Results = Mapping[str, Sequence[EpisodeResult]]


def text(value: object) -> str:
    """A value as HTML text or attribute."""
    return html.escape(plain(value), quote=True)


def framed(head: str, body: str, name: str, kind: str = "plain-table") -> str:
    """A table that scrolls sideways where it is too wide; `name` is the attribute that names it."""
    return (
        f'<div class="scroll" role="group" {name} tabindex="0"><table class="{kind}">'
        f"<thead>{head}</thead><tbody>{body}</tbody></table></div>"
    )


def heads(*titles: str) -> str:
    """Column headings; those that begin with `>` are of figures."""
    kinds = ((' class="figure"', title[1:]) if title[0] == ">" else ("", title) for title in titles)
    return "".join(f'<th scope="col"{kind}>{text(title)}</th>' for kind, title in kinds)


@dataclass(frozen=True, slots=True)
class Comparison:
    """How far one entry is ahead of another under the same budget.

    Attributes:
        a, b: the two.
        episodes: in which both were compared.
        ahead: pass rate in budget of `a` less that of `b`.
        ci95: paired bootstrap interval of it.
        adjusted_p: p-value of a paired permutation test, adjusted for all pairs under the budget.
    """

    a: Entry
    b: Entry
    episodes: int
    ahead: float
    ci95: tuple[float, float]
    adjusted_p: float

    @property
    def significant(self) -> bool:
        return self.adjusted_p < LEVEL


def compare(group: Sequence[Entry], results: Results, grading: str, seed: int) -> dict[tuple[str, str], Comparison]:
    """All pairs of a budget's entries, by the figure that ranks; Holm's step-down over the pairs.

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
    played = {entry.id: {r.episode: r for r in results[entry.id][:MOST_EPISODES] if not r.void} for entry in rivals}
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
    found: dict[tuple[str, str], Comparison] = {}
    for place, ((a, b), adjusted) in enumerate(zip(pairs, _holm(p_values.tolist()), strict=True)):
        mean, low, high = float(ahead[:, place].sum()) / len(common), float(lows[place]), float(highs[place])
        one, other, count = rivals[a], rivals[b], len(common)
        found[one.id, other.id] = Comparison(one, other, count, mean, (low, high), adjusted)
        found[other.id, one.id] = Comparison(other, one, count, -mean, (-high, -low), adjusted)
    return found


def _passed(result: EpisodeResult, grading: str) -> bool:
    return (result.strict if grading == "strict" else result.judged) and result.within_budget


def _holm(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted for all of them, after Holm."""
    adjusted, highest = [1.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted


def points(value: float) -> str:
    """A difference of rates in percentage points, with its sign."""
    shown = written(abs(value), "rate")
    return "0.0" if shown == "0.0" else f"{'+' if value > 0 else '−'}{shown}"


def p_text(value: float) -> str:
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def significance(groups: Sequence[Sequence[Entry]], compared: Sequence[Mapping[tuple[str, str], Comparison]]) -> str:
    """One matrix a budget: by how many points the agent of the row is ahead of the agent of the column."""
    parts = []
    for index, (group, pairs) in enumerate(zip(groups, compared, strict=True)):
        shown = [entry for entry in group if any(entry.id in key for key in pairs)]
        if not shown:
            continue
        label = condition(group[0].row)
        head = "".join(f'<th scope="col"><span>{_breakable(entry.row["agent"])}</span></th>' for entry in shown)
        body = []
        for a in shown:
            cells = "".join('<td class="self">·</td>' if a is b else _pair(pairs.get((a.id, b.id))) for b in shown)
            body.append(f'<tr><th scope="row">{text(a.row["agent"])}</th>{cells}</tr>')
        table = framed(f"<tr><td></td>{head}</tr>", "".join(body), f'aria-labelledby="pairs-{index}"', "matrix")
        parts.append(f'<div data-of-budget="{index}"><h3 id="pairs-{index}">{text(label)}</h3>{table}</div>')
    if not parts:
        return ""
    return (
        '<section aria-labelledby="significance"><h2 id="significance">Who is really ahead</h2>'
        '<p class="note">By how many percentage points of the pass rate in budget the agent of the row is ahead of the one '
        "of the column, paired episode by episode on the same worlds. Filled: the difference is significant at 5 % by a "
        "paired permutation test, adjusted after Holm for all pairs under that budget. Pale: it may be chance.</p>"
        f"{''.join(parts)}</section>"
    )


def _breakable(name: object) -> str:
    """A name that may break where a part of it was added."""
    return text(name).replace("+", "+<wbr>")


def _pair(pair: Comparison | None) -> str:
    if pair is None:
        return "<td>–</td>"
    low, high = pair.ci95
    kind = ("ahead" if pair.ahead > 0 else "behind") if pair.significant else "open"
    said = f"{p_text(pair.adjusted_p)}, 95 % interval {points(low)} to {points(high)}, {pair.episodes:,} episodes"
    return f'<td class="{kind}" title="{text(said)}">{points(pair.ahead)}<small>{p_text(pair.adjusted_p)}</small></td>'


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
    "quick": _BTP,
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


def suite_tables(run: Run, groups: Sequence[Sequence[Entry]]) -> str:
    """The run's figures in the columns of the paper that its suite follows; empty for a suite that follows none."""
    layout = LAYOUTS.get(str(run.document.get("suite")))
    if layout is None or not groups:
        return ""
    tables = "".join(_suite_table(layout, index, group) for index, group in enumerate(groups))
    return (
        f'<section aria-labelledby="suite"><h2 id="suite">{text(layout.title)}</h2><p class="note">{text(layout.note)}</p>'
        f"{tables}</section>"
    )


def _suite_table(layout: _Layout, index: int, group: Sequence[Entry]) -> str:
    budget = group[0].row.get("budget") or {}
    papers = {}
    if layout.paper:
        papers = {row["agent"]: row for row in published(layout.paper) if row["budget"] == budget}
    change = layout is LAYOUTS["ecoact"]
    tokens = {str(entry.row["agent"]): figure(entry.row, "average_tokens") for entry in group}
    head = "".join(f'<th scope="col" class="figure">{text(title)}</th>' for _, title, _ in layout.metrics)
    head += '<th scope="col" class="figure">Change, %</th>' if change else ""
    if papers:
        head += "".join(f'<th scope="col" class="figure paper">{text(title)}</th>' for _, title, _ in layout.metrics)
    body = []
    for entry in group:
        row = entry.row
        agent = str(row["agent"])
        cells = "".join(_cell(row, metric, kind) for metric, _, kind in layout.metrics)
        if change:
            before, now = tokens.get(agent.replace("+ecoact", "")), tokens.get(agent)
            saved = None if "+ecoact" not in agent or not before or now is None else now / before - 1
            cells += f'<td class="figure">{"–" if saved is None else points(saved)}</td>'
        if papers:
            there = papers.get(agent)
            for metric, _, kind in layout.metrics:
                value = None if there is None else figure(there, metric)
                cells += f'<td class="figure paper">{written(value, kind)}</td>'
        mark = " †" if is_simulated(row) else ""
        bound = ' class="reference"' if is_reference(row) else ""
        body.append(f'<tr{bound}><th scope="row">{text(agent)}{mark}</th>{cells}</tr>')
    spans = ""
    if papers:
        wide = f'scope="colgroup" colspan="{len(layout.metrics)}"'
        spans = f'<tr class="spans"><td></td><th {wide}>here</th><th {wide}>in the paper</th></tr>'
    rows = f'{spans}<tr><th scope="col">Method</th>{head}</tr>'
    table = framed(rows, "".join(body), f'aria-labelledby="suite-{index}"')
    return f'<div data-of-budget="{index}"><h3 id="suite-{index}">{text(condition(group[0].row))}</h3>{table}</div>'


def _cell(row: Mapping[str, Any], metric: str, kind: str) -> str:
    ends = interval(row, metric)
    small = f'<small class="ci">{written(ends[0], kind)} to {written(ends[1], kind)}</small>' if ends else ""
    return f'<td class="figure">{written(figure(row, metric), kind)}{small}</td>'


def figures_table(group: Sequence[Entry], caption: str) -> str:
    """All figures of one agent, a column a budget."""
    head = "".join(f'<th scope="col" class="figure">{text(condition(entry.row))}</th>' for entry in group)
    body = []
    for column in COLUMNS:
        for metric, title in ((column.metric, column.title), (column.judged, f"{column.title}, lenient judge")):
            if metric is None:
                continue
            cells = "".join(_cell(entry.row, metric, column.kind) for entry in group)
            unit = ", %" if column.kind == "rate" else ""
            body.append(f'<tr><th scope="row">{text(title)}{unit}</th>{cells}</tr>')
    return framed(f'<tr><th scope="col">Figure</th>{head}</tr>', "".join(body), f'aria-label="{text(caption)}"')
