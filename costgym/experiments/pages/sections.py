"""Sections of a track's page below its table: a row of `SECTIONS` for each, and one template for all."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from markupsafe import Markup

from costgym.experiments.board.conditions import (
    PASS_RATE,
    by_condition,
    condition_label,
    grading_of,
    grouped,
    ranking_metric,
    seeds_of,
    settings_of,
    shown_first,
)
from costgym.experiments.board.rows import (
    FIRST_TRACK,
    LEVEL,
    PLAYED,
    SIMULATED,
    UNMETERED,
    badge,
    blocks,
    columns_of,
    differences,
    is_ranked,
    is_simulated,
    is_void,
    shown_name,
)
from costgym.experiments.board.submissions.manifest import MANIFEST, RECORDED
from costgym.experiments.pages.html import part
from costgym.experiments.play.metric_registry import REGISTRY, Row, brief, cell, figure, written


@dataclass(frozen=True, slots=True)
class Section:
    """A table of agents and their figures.

    Attributes:
        key: of the metric that the section is about; without a row that has it, or where it is 0 everywhere, there is none.
        title, note: what the figures are, in words.
        others: keys of further metrics, a column each.
        conditions: one table with a column for each condition, in place of a table for each condition.
        parts: the figures of a row that has several of the kind, with the heading of each.
        lines: what the lines of the table are.
    """

    key: str
    title: str
    note: str
    others: tuple[str, ...] = ()
    conditions: bool = False
    parts: Callable[[Row, str], Sequence[tuple[str, float | None]]] | None = None
    lines: str = "Agent"


AHEAD = Section(
    "ahead",
    "Who is really ahead",
    "How far the agent of the line is ahead of the agent of the column, paired episode by episode on the same worlds. Coloured "
    "cells are significant at 5 % by a paired sign-flip test, adjusted after Holm for all pairs of the table; the others "
    "may be chance.",
)
REAL = Section(
    "real",
    "Real language models",
    "Success %% of small open models under %s, recorded on %s tasks of the suite %s. These are other tasks than above, so the "
    "two are not ranked together. costgym leaderboard --suite %s shows these rows with their costs, and opens their episodes.",
    lines="Model",
)
BLOCK_NAMES = {PLAYED: "real models or none", SIMULATED: "simulated models", UNMETERED: "unmetered"}
REAL_SUITE = "small"  # of the recorded entries with real models that come with the package
SECTIONS = (
    Section(
        "quality_of_plan",
        "Plan score by the size of the input",
        "At each size level of the image or text, from the smallest to the largest.",
        parts=lambda row, _: [(f"size level {entry['level']}", entry["quality"]) for entry in row.get("by_level") or ()],
    ),
    Section(
        "money_lost",
        "Money lost by double execution",
        "A call that books or pays and then times out has happened, or it has not. An agent that repeats it blindly may pay "
        "twice. Money lost is what the unwanted effects at the end of an episode are worth.",
        ("duplicates", "uncompensated", "state_correct", "pass_rate_under_budget"),
    ),
    Section(
        "fault_robustness",
        "What faults cost",
        "The same tasks with the same luck in worlds of different harshness: the success rate with these faults divided by "
        "that without any. Failures multiply a tool’s share of failing calls, rate limits the share of limited tools and how "
        "little they admit, latency the time of calls.",
        conditions=True,
    ),
    Section(
        "pass_hat_k",
        "Success every time",
        "The share of tasks that an agent solves under all of k seeds, over all choices of k among those that were played.",
        parts=lambda row, key: [(f"k = {k}", share) for k, share in enumerate(row.get(key) or (), 1)],
    ),
)


def sections_of(track: Mapping[str, Any]) -> list[Markup]:
    """The sections of a track that have something to say."""
    return [html for html in (_real_models(track), _ahead(track), *(_render(section, track) for section in SECTIONS)) if html]


def _real_models(track: Mapping[str, Any]) -> Markup:
    """A table of the recorded entries with real models, for a page of chat agents on which no real model plays."""
    rows = [row for row in track.get("rows") or () if row.get("model")]
    if track.get("track") != FIRST_TRACK or not rows or not all(is_simulated(row) or badge(row) for row in rows):
        return Markup("")
    manifests = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(RECORDED.glob(f"*/{MANIFEST}"))]
    entries = [entry for entry in manifests if entry["run"]["suite"] == REAL_SUITE]
    if not entries:
        return Markup("")
    heads = list(dict.fromkeys(row["agent"] for entry in entries for row in entry["rows"]))
    columns = {entry.get("model") or entry["name"]: {row["agent"]: row for row in entry["rows"]} for entry in entries}
    order = sorted(columns, key=lambda name: -max(figure(row, PASS_RATE) or 0.0 for row in columns[name].values()))
    lines = [(name, [_cell(columns[name].get(head, {}), PASS_RATE, "rate") for head in heads]) for name in order]
    row = entries[0]["rows"][0]
    budget = condition_label(row, {**track, "conditions": None})
    section = replace(REAL, note=REAL.note % (budget, row["episodes"], REAL_SUITE, REAL_SUITE))
    return part("section.html", section=section, tables=[{"label": "", "heads": heads, "lines": lines}], first=0)


def _ahead(track: Mapping[str, Any]) -> Markup:
    """A matrix for each condition and block of rows that are ranked together: how far the agent of the line is ahead of the
    agent of the column."""
    rows = [row for row in track.get("rows") or () if is_ranked(row)]
    if not rows:
        return Markup("")
    key = ranking_metric(track, grading_of(rows))
    groups = by_condition(rows, track)
    tables: list[dict[str, Any]] = []
    first = 0
    for number, group in enumerate(groups):
        apart = blocks(group)
        first = len(tables) if number == shown_first(groups) else first
        for name, block in apart:
            pairs = list(combinations(range(len(block)), 2))
            tested = dict(zip(pairs, differences(block, key, pairs, seeds_of(track)), strict=True))
            if any(tested.values()):
                label = condition_label(block[0], track) + (f", {BLOCK_NAMES[name]}" if len(apart) > 1 else "")
                tables.append({"label": label, **_matrix(block, tested, columns_of(track)[0].kind)})
    return part("section.html", section=AHEAD, tables=tables, first=first) if tables else Markup("")


def _matrix(block: Sequence[Row], tested: Mapping[tuple[int, int], tuple[float, float] | None], kind: str) -> dict[str, Any]:
    names = [_name(row) for row in block]
    lines = [[_pair(tested, a, b, kind) for b in range(len(block))] for a in range(len(block))]
    return {"heads": names, "lines": list(zip(names, lines, strict=True))}


def _pair(tested: Mapping[tuple[int, int], tuple[float, float] | None], a: int, b: int, kind: str) -> dict[str, Any]:
    pair = tested.get((min(a, b), max(a, b)))
    if pair is None:
        return {"value": "·" if a == b else "–", "span": "", "shade": 0, "mark": ""}
    gap, p = pair[0] if a < b else -pair[0], pair[1]
    mark = "" if p >= LEVEL else "ahead" if gap > 0 else "behind"
    return {"value": signed(gap, kind), "span": p_text(p), "shade": 0, "mark": mark}


def _render(section: Section, track: Mapping[str, Any]) -> Markup:
    rows = [row for row in track.get("rows") or () if not is_void(row)]
    key = REGISTRY[section.key].key_under(grading_of(rows))
    if section.parts is not None:
        rows = [row for row in rows if len(_parts(section, row, key)) > 1]
    elif not section.conditions or len({str(settings_of(row, track)) for row in rows}) > 1:
        rows = [row for row in rows if figure(row, key) is not None]
    if section.parts is None and not any(figure(row, key) for row in rows):
        rows = []
    if not rows:
        return Markup("")
    groups = by_condition(rows, track)
    tables = _by_agent(groups, track, key) if section.conditions else [_table(section, group, track, key) for group in groups]
    first = 0 if section.conditions else shown_first(groups)
    return part("section.html", section=section, tables=tables, first=first)


def _parts(section: Section, row: Row, key: str) -> list[float | None]:
    return [] if section.parts is None else [value for _, value in section.parts(row, key)]


def _table(section: Section, rows: Sequence[Row], track: Mapping[str, Any], key: str) -> dict[str, Any]:
    """A condition's table: a column for each part, or for each metric."""
    kind = REGISTRY[section.key].kind
    if section.parts is not None:
        heads = [head for head, _ in section.parts(rows[0], key)]
        lines = [[_shaded(value, kind) for value in _parts(section, row, key)] for row in rows]
    else:
        metrics = [REGISTRY[name] for name in (section.key, *section.others)]
        heads = [metric.heading() for metric in metrics]
        lines = [[_cell(row, metric.key_under(grading_of(rows)), metric.kind) for metric in metrics] for row in rows]
    return {"label": condition_label(rows[0], track), "heads": heads, "lines": list(zip(map(_name, rows), lines, strict=True))}


def _by_agent(groups: Sequence[Sequence[Row]], track: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """One table of all conditions: a line for each agent, the most robust under the harshest condition first."""
    heads = [condition_label(group[0], track) for group in groups]
    columns = [{_name(row): row for row in group} for group in groups]
    agents = grouped((name for column in columns for name in column), lambda name: name)
    order = sorted(agents, key=lambda name: -(figure(columns[-1].get(name, {}), key) or 0.0))
    lines = [(name, [_cell(column.get(name, {}), key, "rate") for column in columns]) for name in order]
    return [{"label": "", "heads": heads, "lines": lines}]


def _cell(row: Row, key: str, kind: str) -> dict[str, Any]:
    return {**_shaded(figure(row, key), kind), "span": cell(row, key, kind, brief)["span"]}


def _shaded(value: float | None, kind: str) -> dict[str, Any]:
    """A figure as it is written, and how dark its cell is in percent: shares alone have a scale."""
    share = value if kind == "rate" and value is not None else 0.0
    return {"value": brief(value, kind), "shade": round(100 * min(1.0, max(0.0, share))), "span": "", "mark": ""}


def signed(value: float, kind: str) -> str:
    """Write a difference with its sign; of shares in percentage points."""
    size = written(abs(value), kind)
    return size if not size.strip("0.") else f"{'+' if value > 0 else '−'}{size}"


def p_text(value: float) -> str:
    """Write a p-value as a reader sees it."""
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def _name(row: Row) -> str:
    return f"{shown_name(row)} (simulated)" if is_simulated(row) else shown_name(row)
