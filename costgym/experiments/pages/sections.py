"""Sections of a track's page: what faults cost, how reliable agents are, who pays twice, and plan score over size and α."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from costgym.experiments.board.conditions import (
    CALM,
    PASS_RATE,
    budget_label,
    by_condition,
    condition_label,
    currency_of,
    grouped,
    ranking_metric,
    shown_first,
)
from costgym.experiments.board.rows import is_ranked, is_reference, is_simulated, is_void, shown_name
from costgym.experiments.pages.charts import Dot, Series, dots, lines
from costgym.experiments.pages.html import part
from costgym.experiments.play.metric_registry import REGISTRY, Row, cell, figure, interval, plain, written
from costgym.experiments.play.metrics import GRADINGS

_TITLES = {"failures": "Failures", "rate_limits": "Rate limits", "latency": "Latency"}


def robustness_section(track: Mapping[str, Any]) -> Markup:
    """Success over failure rate, rate limits and latency, as a section of a track's page; empty where no stress varies."""
    rows = [row for row in track.get("rows") or () if row.keys() >= CALM.keys() and not is_void(row)]
    levels = {name: sorted({float(row[name]) for row in rows}) for name in CALM}
    if not rows or all(len(each) < 2 for each in levels.values()):
        return Markup("")
    metric = ranking_metric(track)
    by_budget = grouped(rows, lambda row: tuple(sorted((row.get("budget") or {}).items())))
    blocks: list[dict[str, Any]] = []
    for budget, own in by_budget.items():
        of_agent = grouped(own, lambda row: (str(row.get("agent")), str(row.get("model") or ""))).values()
        agents = [_agent(each, levels, metric, track) for each in of_agent]
        label = budget_label(dict(budget), currency_of(track)) if len(by_budget) > 1 else ""
        blocks.append({"budget": label, "agents": sorted(agents, key=lambda agent: -agent["kept"])})
    columns = [*({"title": _level(name, levels[name][-1])} for name in CALM if len(levels[name]) > 1), {"title": "All of them"}]
    return part(
        "robustness.html",
        blocks=blocks,
        columns=columns,
        limits=[_level("rate_limits", level) for level in levels["rate_limits"]],
        figure=_field(track),
    )


def _field(track: Mapping[str, Any]) -> str:
    return "judged_fault_robustness" if track.get("grading") == GRADINGS[1] else "fault_robustness"


def _level(name: str, factor: float) -> str:
    return f"{_TITLES[name]} × {factor:g}"


def _agent(rows: Sequence[Row], levels: Mapping[str, Sequence[float]], metric: str, track: Mapping[str, Any]) -> dict[str, Any]:
    """An agent's line in the summary, and its surface: a table for each latency, a line for each failure rate."""
    by_level = {tuple(float(row[name]) for name in CALM): row for row in rows}
    calm = tuple(CALM.values())
    hardest = {name: levels[name][-1] for name in CALM}
    varied = [name for name in CALM if len(levels[name]) > 1]
    asked = [{**CALM, name: hardest[name]} for name in varied] + [hardest]
    kept = [by_level.get(tuple(each[name] for name in CALM)) for each in asked]
    field = _field(track)
    cells = [cell(row or {}, field, "rate") for row in kept]
    last = None if kept[-1] is None else figure(kept[-1], field)
    return {
        "name": shown_name(rows[0]),
        "calm": written(None if calm not in by_level else figure(by_level[calm], metric), "rate"),
        "cells": cells,
        "kept": -1.0 if last is None else last,
        "surface": [
            {
                "title": _level("latency", latency),
                "lines": [
                    {
                        "title": _level("failures", failures),
                        "cells": [_cell(by_level.get((failures, limits, latency)), metric) for limits in levels["rate_limits"]],
                    }
                    for failures in levels["failures"]
                ],
            }
            for latency in levels["latency"]
        ],
    }


def _cell(row: Row | None, metric: str) -> dict[str, Any]:
    value = None if row is None else figure(row, metric)
    return {"value": written(value, "rate"), "shade": 0 if value is None else round(100 * min(1.0, max(0.0, value)))}


def reliability_section(track: Mapping[str, Any]) -> Markup:
    """The shares of tasks that pass in all of k episodes, as a section; empty where every task is played once."""
    groups = by_condition([row for row in track.get("rows") or [] if is_ranked(row)], track)
    seeds = max((len(row.get("pass_hat_k") or ()) for group in groups for row in group), default=0)
    if seeds < 2:
        return Markup("")
    names = {"strict": "pass_hat_k", "judge": "judged_pass_hat_k"}
    first = shown_first(groups)
    return part(
        "reliability.html",
        counts=range(1, seeds + 1),
        gradings=GRADINGS,
        blocks=[
            {
                "label": condition_label(group[0], track),
                "open": number == first,
                "agents": [
                    {
                        "name": _marked(row),
                        "cells": [
                            written(shares[k] if k < len(shares) else None, "rate")
                            for grading in GRADINGS
                            for shares in [row.get(names[grading]) or ()]
                            for k in range(seeds)
                        ],
                    }
                    for row in group
                ],
            }
            for number, group in enumerate(groups)
        ],
    )


LOST = "money_lost"


def writes_section(track: Mapping[str, Any]) -> Markup:
    """What double executions cost, a picture for each condition, as a section; empty where no tool writes."""
    rows = [row for row in track.get("rows") or () if figure(row, LOST) is not None and not is_void(row)]
    if not rows:
        return Markup("")
    currency = plain(currency_of(track))
    blocks = []
    for label, own in grouped(rows, lambda row: condition_label(row, track)).items():
        own.sort(key=lambda row: (-(figure(row, LOST) or 0.0), figure(row, PASS_RATE) or 0.0))
        blocks.append({"label": label, "sentence": _sentence(own, currency), "chart": _chart(own, currency, label)})
    return part("writes.html", blocks=blocks)


def _chart(rows: list[Row], currency: str, label: str) -> Markup:
    lost = [Dot(_name(row), figure(row, LOST) or 0.0, *_ends(row, LOST)) for row in rows]
    passed = [
        Dot(_name(row), 100 * (figure(row, PASS_RATE) or 0.0), *(100 * end for end in _ends(row, PASS_RATE))) for row in rows
    ]
    said = "; ".join(
        f"{_name(row)} {written(figure(row, LOST), 'number')} lost, {written(figure(row, PASS_RATE), 'rate')} % passed"
        for row in rows
    )
    titles = REGISTRY[LOST].heading(f"{currency} an episode"), REGISTRY[PASS_RATE].heading()
    return dots([lost, passed], f"Who pays twice, {label}: {said}", titles)


def _sentence(rows: list[Row], currency: str) -> str:
    """Write who loses most, and who passes most among those that lose nothing."""
    ranked = [row for row in rows if not is_reference(row)]
    if not ranked:
        return ""
    worst = ranked[0]
    lost, ends = figure(worst, LOST), interval(worst, LOST)
    if not lost:
        return "No agent loses money."
    span = "" if ends is None else f" (95 %: {written(ends[0], 'number')} to {written(ends[1], 'number')})"
    text = (
        f"{_name(worst)} loses most: {written(lost, 'number')} {currency}{span} an episode, with "
        f"{written(figure(worst, 'duplicates'), 'number')} double executions."
    )
    safe = [row for row in ranked if figure(row, LOST) == 0 and figure(row, PASS_RATE)]
    if not safe:
        return text
    best = max(safe, key=lambda row: figure(row, PASS_RATE) or 0.0)
    return f"{text} {_name(best)} loses nothing and passes {written(figure(best, PASS_RATE), 'rate')} %."


def _marked(row: Row) -> str:
    return plain(shown_name(row)) + " †" * is_simulated(row)


def _name(row: Row) -> str:
    return _marked(row) + " (bound)" * (is_reference(row) and not is_simulated(row))


def _ends(row: Row, key: str) -> tuple[float, float]:
    value = figure(row, key) or 0.0
    return interval(row, key) or (value, value)


KINDS = {"sequential": "Sequential tasks", "nonsequential": "Non-sequential tasks"}
_NOT_DRAWN = ("random",)  # a random walk is so far below the others that it would flatten them; the table has it


def plan_figures(document: Mapping[str, Any]) -> Markup:
    """Draw the figures of a leaderboard whose rows are planners, as a section of its page; empty for any other."""
    rows = [row for row in document.get("rows") or () if "alpha" in row and row["agent"] not in _NOT_DRAWN]
    if not rows:
        return Markup("")
    alphas = sorted({row["alpha"] for row in rows})
    middle = min(alphas, key=lambda alpha: (abs(alpha - 0.5), alpha))
    colours = {agent: number for number, agent in enumerate(dict.fromkeys(row["agent"] for row in rows))}
    parts = []
    for kind, title in KINDS.items():
        own = [row for row in rows if row["tasks"] == kind]
        shown = [row for row in own if row["alpha"] == middle]
        if shown:
            sweep = _sweep(own, alphas, colours, title) if len(alphas) > 1 else None
            figures = [_quality_by_level(shown, colours, title), sweep]
            parts.append({"kind": kind, "title": title, "figures": [figure for figure in figures if figure is not None]})
    return part("opencatp-figures.html", kinds=parts, alpha=middle, several=len(alphas) > 1)


def _quality_by_level(rows: Sequence[Row], colours: Mapping[str, int], title: str) -> dict[str, Any] | None:
    series = []
    for row in rows:
        levels = [level for level in row["by_level"] if level["quality"] is not None]
        if len(levels) > 1:
            xs, ys = [level["level"] for level in levels], [level["quality"] for level in levels]
            series.append(Series(_marked(row), xs, ys, colours[row["agent"]]))
    if not series:
        return None
    ticks = sorted({x for each in series for x in each.xs})
    name = f"{title}: plan score by size level, one line a planner"
    return {
        "title": "Plan score by size of the image",
        "caption": "Larger images cost more: what pays at level 0 is a loss at level 3. Lines that leave the frame go on.",
        "chart": lines(series, name, "size level of the image", "plan score", ticks, _floor(series)),
    }


def _sweep(rows: Sequence[Row], alphas: Sequence[float], colours: Mapping[str, int], title: str) -> dict[str, Any]:
    series = []
    for agent, own in grouped(rows, lambda row: str(row["agent"])).items():
        own.sort(key=lambda row: float(row["alpha"]))
        xs, ys = [row["alpha"] for row in own], [row["quality_of_plan"] for row in own]
        series.append(Series(_marked(own[0]), xs, ys, colours[agent]))
    name = f"{title}: plan score over α, one line a planner"
    return {
        "title": "Plan score over α, the weight of the task score",
        "caption": "The more the task score weighs, the more restoration pays.",
        "chart": lines(series, name, "α", "plan score", alphas, _floor(series)),
    }


def _floor(series: Sequence[Series]) -> float:
    """Return the bottom of an axis that a few planners far below all others do not stretch."""
    values = sorted(value for each in series for value in each.ys)
    middle, top = values[len(values) // 2], values[-1]
    cut = middle - 1.5 * max(top - middle, 0.05)
    return max(cut, values[0] - 0.06 * (top - values[0] or 1.0))
