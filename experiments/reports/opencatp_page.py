"""The OpenCATP leaderboard as one self-contained page: the paper's tables, and the trade-off between score and price.

Everything is drawn here, in SVG; the page needs no script.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from .leaderboard_page import _template

_W, _H, _LEFT, _BOTTOM, _TOP, _RIGHT = 460, 300, 46, 40, 14, 108
_LOG_TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
_MARKS = ("circle", "square", "triangle", "diamond", "down")
_KIND_TITLES = {"sequential": "Sequential tasks", "nonsequential": "Non-sequential tasks"}
_COLUMNS = (
    ("quality_of_plan", "Quality of plan", 3, True, "alpha times the score less (1 − alpha) times the price over 0.567 USD."),
    ("score", "Task score", 3, True, "Mean score of what was wanted: images by similarity, texts by shared words; 0 to 1."),
    ("average_cost", "Price, USD", 4, False, "What the plan's tools cost, by time and memory at the size of the input."),
    ("average_seconds", "Time, s", 2, False, "The plan's longest path: branches run at once."),
    ("average_seconds_one_by_one", "One by one, s", 2, False, "The same tools one after another."),
    ("plan_validity", "Valid, %", 1, True, "Share of answers that are plans at all."),
    ("regret", "Regret", 3, False, "Quality that the best plan for the very sample has ahead."),
)


def render(document: Mapping[str, Any], sections: str = "") -> str:
    """The page of an OpenCATP leaderboard.

    Args:
        document: the content of `leaderboard.json`.
        sections: HTML after the figures.

    Returns:
        A whole HTML document; the same document gives the same bytes.
    """
    rows = document["rows"]
    alphas = sorted({row["alpha"] for row in rows})
    middle = min(alphas, key=lambda alpha: abs(alpha - 0.5))
    agents = list(dict.fromkeys(row["agent"] for row in rows if row["alpha"] == middle))
    colour = {agent: index for index, agent in enumerate(agents)}
    parts = []
    for kind, title in _KIND_TITLES.items():
        own = [row for row in rows if row["tasks"] == kind and row["alpha"] == middle]
        if not own:
            continue
        parts.append(f"<h2>{title}</h2>\n{_table(own)}\n<div class='pair'>")
        drawn = [row for row in own if row["agent"] != "random"]
        caption = "Up and to the left is better. The random walk is left out of the figures; the table has it."
        parts.append(_figure("Score against price", caption, _scatter(drawn, colour)))
        caption = (
            "Larger images cost more: what pays at level 0 is a loss at level 3. Lines that leave the frame go on below it."
        )
        parts.append(_figure("Quality of plan by size of the image", caption, _levels(drawn, colour)))
        if len(alphas) > 1:
            swept = [row for row in rows if row["tasks"] == kind and row["agent"] != "random"]
            caption = "The more the score weighs, the more restoration pays."
            parts.append(
                _figure(
                    "Quality of plan over the weight of the score",
                    caption,
                    _sweep(swept, [agent for agent in agents if agent != "random"], colour),
                )
            )
        parts.append("</div>")
    scenario = document["scenario"]
    lede = (
        f"{scenario['description']} {len(agents)} planners, weight of the score {middle:g}, profile {scenario['profile']}, "
        f"{scenario['split']} tasks and samples, seed {document['seed']}."
    )
    note = (
        "† A simulated language model, without weights: its figures say nothing of a real one. "
        "Oracles are bounds, not competitors."
    )
    meanings = "".join(f"<dt>{_text(title)}</dt><dd>{_text(meaning)}</dd>" for _, title, _, _, meaning in _COLUMNS)
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>costgym leaderboard: opencatp, seed {_text(document['seed'])}</title>\n"
        f"<style>{_template('page.css')}\n{_template('plans.css')}</style></head>\n<body>"
        "<header><p class='brand'><span>costgym</span> leaderboard</p>"
        f"<h1>Priced plans of vision tools</h1><p class='lede'>{_text(lede)}</p></header>\n<main>"
        + "\n".join(parts)
        + sections
        + f"<p class='note'>{_text(note)}</p><h2>What the columns mean</h2><dl class='meanings'>{meanings}</dl></main>"
        f"<footer><p>Made by costgym {_text(document['version'])}; the same seed gives the same page.</p></footer>"
        "</body></html>\n"
    )


def _text(value: object) -> str:
    return html.escape(str(value), quote=True)


def _name(row: Mapping[str, Any]) -> str:
    return _text(row["agent"]) + (" †" if row["model"] == "simulated" else "")


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    ranked = [row for row in rows if not row["agent"].startswith("oracle")]
    head = "".join(
        f"<th scope='col' class='figure' title='{_text(meaning)}'>{_text(title)}</th>" for _, title, *_, meaning in _COLUMNS
    )
    body = []
    for row in rows:
        cells = []
        for metric, _, digits, higher, _ in _COLUMNS:
            value = row[metric]
            best = (max if higher else min)((other[metric] for other in ranked), default=value)
            shown = f"{100 * value:.{digits}f}" if metric == "plan_validity" else f"{value:.{digits}f}"
            shown = _minus(shown)
            bold = row in ranked and value == best and metric != "plan_validity"
            cells.append(
                f"<td class='figure'>{f'<b class=best>{shown}</b>' if bold else shown}{_interval(row, metric, digits)}</td>"
            )
        bound = " class='reference'" if row["agent"].startswith("oracle") else ""
        body.append(f"<tr{bound}><th scope='row'>{_name(row)}</th>{''.join(cells)}</tr>")
    return (
        "<div class='scroll' role='group' aria-label='Figures' tabindex='0'>"
        f"<table class='plans'><thead><tr><th scope='col'>Planner</th>{head}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def _interval(row: Mapping[str, Any], metric: str, digits: int) -> str:
    ends = row["ci95"].get(metric)
    if ends is None or metric == "plan_validity":
        return ""
    low, high = (_minus(f"{end:.{digits}f}") for end in ends)
    return f"<small class='ci'>{low} to {high}</small>"


def _figure(title: str, caption: str, drawing: str) -> str:
    return f"<figure><h3>{_text(title)}</h3>{drawing}<figcaption>{_text(caption)}</figcaption></figure>"


class _Axes:
    """A frame with two scales and their ticks."""

    def __init__(
        self,
        xs: Sequence[float],
        ys: Sequence[float],
        x_label: str,
        y_label: str,
        ticks: Sequence[float] | None = None,
        shown: Callable[[float], float] = float,
    ) -> None:
        self.x0, self.x1 = min(xs), max(xs)
        self.y0, self.y1 = min(ys), max(ys)
        pad = (self.y1 - self.y0 or 1.0) * 0.06
        self.y0, self.y1 = self.y0 - pad, self.y1 + pad
        if self.x1 == self.x0:
            self.x1 = self.x0 + 1.0
        self.parts: list[str] = []
        for value in _ticks(self.y0, self.y1):
            y = self.y(value)
            self.parts.append(f"<line class='grid' x1='{_LEFT}' x2='{_W - _RIGHT}' y1='{y:.1f}' y2='{y:.1f}'/>")
            self.parts.append(f"<text x='{_LEFT - 6}' y='{y + 3.5:.1f}' text-anchor='end'>{_number(value)}</text>")
        for value in ticks or _ticks(self.x0, self.x1):
            label = _number(round(shown(value), 6))
            self.parts.append(f"<text x='{self.x(value):.1f}' y='{_H - _BOTTOM + 16}' text-anchor='middle'>{label}</text>")
        base = _H - _BOTTOM
        self.parts.append(f"<line class='axis' x1='{_LEFT}' x2='{_W - _RIGHT}' y1='{base}' y2='{base}'/>")
        self.parts.append(
            f"<text x='{(_LEFT + _W - _RIGHT) / 2:.0f}' y='{_H - 6}' text-anchor='middle'>{_text(x_label)}</text>"
        )
        self.parts.append(f"<text x='{_LEFT}' y='9' text-anchor='start'>{_text(y_label)}</text>")

    def x(self, value: float) -> float:
        return _LEFT + 12 + (value - self.x0) / (self.x1 - self.x0) * (_W - _RIGHT - _LEFT - 24)

    def y(self, value: float) -> float:
        return _H - _BOTTOM - (value - self.y0) / (self.y1 - self.y0) * (_H - _BOTTOM - _TOP)

    def mark(self, x: float, y: float, index: int, title: str) -> None:
        shape = _MARKS[index % len(_MARKS)]
        px, py = self.x(x), self.y(y)
        points = {
            "square": [(-4, -4), (4, -4), (4, 4), (-4, 4)],
            "triangle": [(0, -5), (5, 4), (-5, 4)],
            "diamond": [(0, -6), (5, 0), (0, 6), (-5, 0)],
            "down": [(0, 5), (5, -4), (-5, -4)],
        }.get(shape)
        inner = f"<title>{_text(title)}</title>"
        if points is None:
            self.parts.append(f"<circle class='k{index % 8}' cx='{px:.1f}' cy='{py:.1f}' r='4.5'>{inner}</circle>")
        else:
            path = " ".join(f"{px + dx:.1f},{py + dy:.1f}" for dx, dy in points)
            self.parts.append(f"<polygon class='k{index % 8}' points='{path}'>{inner}</polygon>")

    def labels(self, wanted: Sequence[tuple[float, str, int]]) -> None:
        """Names at the right edge, moved apart where they would overlap."""
        places = sorted((self.y(value), name, index) for value, name, index in wanted)
        height, last = 12.5, float("-inf")
        top = min(_TOP + 4.0, places[0][0]) if places else 0.0
        overflow = max(0.0, top + height * len(places) - (_H - _BOTTOM))
        for y, name, index in places:
            last = max(y - overflow, last + height, top)
            self.parts.append(f"<text class='t{index % 8}' x='{_W - _RIGHT + 6}' y='{last + 4:.1f}'>{name}</text>")

    def svg(self, label: str) -> str:
        return f"<svg viewBox='0 0 {_W} {_H}' role='img' aria-label='{_text(label)}'>{''.join(self.parts)}</svg>"

    def inside(self, y: float) -> bool:
        """The value lies within the frame; what lies below a cut-off axis is only in the table."""
        return self.y0 <= y <= self.y1


def _scatter(rows: Sequence[Mapping[str, Any]], colour: Mapping[str, int]) -> str:
    prices = [math.log10(max(row["average_cost"], 1e-4)) for row in rows]
    marks = [math.log10(value) for value in _LOG_TICKS if min(prices) - 0.1 <= math.log10(value) <= max(prices) + 0.1]
    axes = _Axes(
        [*prices, *marks],
        [row["score"] for row in rows],
        "price, USD a plan, logarithmic",
        "task score",
        marks,
        lambda v: 10**v,
    )
    for price, row in zip(prices, rows, strict=True):
        title = f"{row['agent']}: score {row['score']:.3f}, price {row['average_cost']:.4f} USD"
        axes.mark(price, row["score"], colour[row["agent"]], title)
    axes.labels([(row["score"], _name(row), colour[row["agent"]]) for row in rows])
    return axes.svg("Task score against price, one mark a planner; the table holds the same numbers")


def _levels(rows: Sequence[Mapping[str, Any]], colour: Mapping[str, int]) -> str:
    shown = [row for row in rows if all(level["quality"] is not None for level in row["by_level"])]
    if not shown:
        return "<p class='note'>Too few plans for every size level.</p>"
    values = [level["quality"] for row in shown for level in row["by_level"]]
    axes = _Axes([0, 3], _cut(values), "size level of the image", "quality of plan", ticks=[0, 1, 2, 3])
    for row in shown:
        index = colour[row["agent"]]
        points = [(level["level"], level["quality"]) for level in row["by_level"]]
        _line(axes, points, index, row["agent"])
    ends = [(max(row["by_level"][-1]["quality"], axes.y0), _name(row), colour[row["agent"]]) for row in shown]
    axes.labels(ends)
    return axes.svg("Quality of plan by size level, one line a planner")


def _sweep(rows: Sequence[Mapping[str, Any]], agents: Sequence[str], colour: Mapping[str, int]) -> str:
    alphas = sorted({row["alpha"] for row in rows})
    values = _cut([row["quality_of_plan"] for row in rows])
    axes = _Axes(alphas, values, "weight of the score", "quality of plan", ticks=alphas)
    ends = []
    for agent in agents:
        own = sorted((row["alpha"], row["quality_of_plan"]) for row in rows if row["agent"] == agent)
        _line(axes, own, colour[agent], agent)
        ends.append((max(own[-1][1], axes.y0), _name(next(row for row in rows if row["agent"] == agent)), colour[agent]))
    axes.labels(ends)
    return axes.svg("Quality of plan over the weight of the score, one line a planner")


def _cut(values: Sequence[float]) -> list[float]:
    """Values for a scale that is not stretched by a few planners far below all others."""
    kept = sorted(values)
    middle, top = kept[len(kept) // 2], kept[-1]
    floor = middle - 1.5 * max(top - middle, 0.05)
    return [max(value, floor) for value in values]


def _line(axes: _Axes, points: Sequence[tuple[float, float]], index: int, name: str) -> None:
    """A line as far as it stays in the frame; the stretch that leaves it ends at the edge."""
    for (x0, y0), (x1, y1) in pairwise(points):
        if y0 < axes.y0 and y1 < axes.y0:
            continue
        if y1 < axes.y0:
            x1, y1 = x0 + (x1 - x0) * (axes.y0 - y0) / (y1 - y0), axes.y0
        elif y0 < axes.y0:
            x0, y0 = x1 + (x0 - x1) * (axes.y0 - y1) / (y0 - y1), axes.y0
        ends = f"{axes.x(x0):.1f},{axes.y(y0):.1f} {axes.x(x1):.1f},{axes.y(y1):.1f}"
        axes.parts.append(f"<polyline class='l{index % 8}' points='{ends}'/>")
    for x, y in points:
        if axes.inside(y):
            axes.mark(x, y, index, f"{name}: {y:.3f} at {x:g}")


def _ticks(low: float, high: float) -> list[float]:
    """Round values, four to seven of them."""
    step = 10 ** math.floor(math.log10((high - low) / 4))
    for factor in (1, 2, 5, 10):
        if (high - low) / (step * factor) <= 7:
            step *= factor
            break
    first = math.ceil(low / step - 1e-9)
    return [round((first + i) * step, 10) for i in range(int((high - first * step) / step + 1e-9) + 1)]


def _number(value: float) -> str:
    return _minus(f"{value:g}")


def _minus(figure: str) -> str:
    """A figure with a real minus sign, and none before a zero."""
    if figure.startswith("-") and not figure.strip("-0."):
        figure = figure[1:]
    return figure.replace("-", "−")
