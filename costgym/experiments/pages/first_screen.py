"""The first screen of a track's page: a budget to choose, three answers under it, and a chart of success over cost.

A budget is the limit that agents played under, here as in the table. Everything is worked out in Python; the page's script
shows the part that belongs to the reader's choice.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from costgym.experiments.board.conditions import (
    budget_label,
    budget_order,
    condition_label,
    currency_of,
    grouped,
    ranking_metric,
    settings_label,
)
from costgym.experiments.board.rows import (
    PLAYED,
    SIMULATED,
    UNMETERED,
    badge,
    block_by_row,
    columns_of,
    is_ranked,
    is_reference,
    is_simulated,
    is_void,
    own_name,
    shown_name,
)
from costgym.experiments.pages.answers import NOBODY, answer, cost_of_success, main_figure
from costgym.experiments.pages.html import part
from costgym.experiments.play.metric_registry import Row, brief, estimate, figure, plain, unit_of, with_unit
from costgym.experiments.play.metrics import GRADINGS

COSTS = {"price": "average_cost", "seconds": "average_seconds"}  # the figures of a row that the chart may show
BOUND = "bound"  # a kind of row beside the blocks in which rows are ranked
FAMILIES = 12  # colours that pages have
MIN_LOG_RATIO = 15  # of the highest to the lowest cost, from which on an axis is logarithmic
MAX_TICKS = 6
_NICE = (1.0, 2.0, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Axis:
    """A scale from `low` to `high`, with the values that are written at it."""

    low: float
    high: float
    logarithmic: bool
    ticks: tuple[float, ...]

    def at(self, value: float) -> float:
        """Return where a value lies, 0 to 1."""
        if self.logarithmic:
            share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return round(min(1.0, max(0.0, share)), 4)


def axis_of(values: Sequence[float], from_zero: bool = True) -> Axis:
    """Choose a scale with round ends that holds all values; logarithmic where they differ much."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    paid = [value for value in values if value > 0]
    if from_zero and paid and low >= 0 and max(paid) > MIN_LOG_RATIO * min(paid):
        powers = range(math.floor(math.log10(min(paid))), math.ceil(math.log10(max(paid))) + 1)
        marks = [float(f"{factor * 10.0**power:.6g}") for power in powers for factor in _NICE[:3]]
        first = max(mark for mark in marks if mark <= min(paid))
        last = min((mark for mark in marks if mark >= max(paid)), default=marks[-1])
        return Axis(first, last, True, tuple(mark for mark in marks if first <= mark <= last))
    low = 0.0 if from_zero or low > 0 else low
    high = max(high, low + max(1e-9, abs(low) / 100))  # equal values, of which a scale has no width
    rough = (high - low) / MAX_TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor for factor in _NICE if factor * power >= rough * (1 - 1e-9)) * power
    steps = range(math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9) + 1)
    ticks = tuple(float(f"{number * step:.6g}") for number in steps)
    return Axis(ticks[0], ticks[-1], False, ticks)


def frontier(points: Mapping[int, tuple[float, float]]) -> list[int]:
    """The points, by number, that no other reaches at the same or a lower x with the same or a higher y; x and y both rise."""
    chosen: list[int] = []
    for number, (_, y) in sorted(points.items(), key=lambda item: (item[1][0], -item[1][1], item[0])):
        if not chosen or y > points[chosen[-1]][1]:
            chosen.append(number)
    return chosen


@dataclass(frozen=True, slots=True)
class FirstScreen:
    """The first screen of a page."""

    html: Markup  # as it stands before the script moves anything
    data: dict[str, Any]  # what the script needs


def first_screen(
    rows: Sequence[Row], groups: Sequence[Sequence[Row]], leaderboard: Mapping[str, Any], condition: int, grading: str
) -> FirstScreen:
    """Make the first screen of a track's page from its rows, in the page's order and in groups of one condition each."""
    chart = _Chart(rows, groups, leaderboard)
    kind = chart.kind_of(condition)
    by, world = next(iter(chart.costs)), chart.worlds.index(settings_label(groups[condition][0], leaderboard))
    start = {"condition": condition, "kind": kind, "grading": grading, "by": by, "world": world}
    fronts = chart.fronts()
    leaders = [chart.dots[number] for number in fronts[f"{condition} {kind} {grading} {by}"]]
    limits = {name: [_limit(group, name, axis) for group in groups] for name, axis in chart.axes.items()}
    data = {
        "start": {name: start[name] for name in ("kind", "grading", "by")},
        "dots": chart.dots,
        "lines": chart.lines,
        "fronts": fronts,
        "limits": limits,
    }
    cards: list[dict[str, Any]] = [
        {"condition": number, "kind": name, "grading": way, **_cards(chart, number, name, way, leaderboard)}
        for number, name, way in itertools.product(range(len(groups)), chart.kinds, chart.gradings)
    ]
    html = part(
        "first-screen.html",
        cards=cards,
        thrifty=any(card["best"]["success"] for card in cards if card["best"]),
        choices=[condition_label(group[0], leaderboard) for group in groups],
        condition_title="Condition" if any(settings_label(row, leaderboard) for row in rows) else "Budget",
        chart=chart,
        limit=limits[by][condition],
        start=start,
        front=_steps([(dot["x"][by], dot["y"][grading]) for dot in leaders]),
        main=chart.main.heading(chart.currency),
        upper={by: [(axis.at(tick), f"{tick:g}") for tick in axis.ticks] for by, axis in chart.axes.items()},
        side=[(chart.height.at(tick), f"{tick * (100 if chart.rate else 1):g}") for tick in chart.height.ticks],
        titles={
            by: f"Mean {'cost' if by == 'price' else 'time'} of an episode, {chart.units[by]}".rstrip(", ")
            for by in chart.costs
        },
    )
    return FirstScreen(html, data)


class _Chart:
    """The marks of the chart: one a row, joined where one agent played under several budgets."""

    def __init__(self, rows: Sequence[Row], groups: Sequence[Sequence[Row]], leaderboard: Mapping[str, Any]) -> None:
        self.main, self.currency = columns_of(leaderboard)[0], currency_of(leaderboard)
        self.units = {"price": unit_of(self.currency), "seconds": "s"}
        self.gradings = GRADINGS if self.main.judge else GRADINGS[:1]
        keys = {name: ranking_metric(leaderboard, name) for name in self.gradings}
        drawn = {by: [v for row in rows if (v := figure(row, key)) is not None] for by, key in COSTS.items()}
        self.costs = {by: COSTS[by] for by, values in drawn.items() if any(values)} or {"price": COSTS["price"]}
        self.axes = {by: axis_of(drawn[by]) for by in self.costs}
        heights = [value for row in rows for key in keys.values() if (value := figure(row, key)) is not None]
        self.rate = self.main.kind == "rate"
        self.height = Axis(0.0, 1.0, False, (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)) if self.rate else axis_of(heights, from_zero=False)
        self.worlds = list(dict.fromkeys(settings_label(row, leaderboard) for row in rows))
        self.groups, blocks = groups, block_by_row(groups)
        self.kind = {id(row): BOUND if is_reference(row) else blocks[id(row)] for row in rows}
        shown = {self.kind[id(row)] for row in rows if not is_void(row)}
        self.kinds = [kind for kind in (PLAYED, SIMULATED) if kind in shown] or [UNMETERED]
        conditions = {id(row): number for number, group in enumerate(groups) for row in group}
        self.numbers = {id(row): number for number, row in enumerate(rows)}
        families = {name: number for number, name in enumerate(dict.fromkeys(map(_family, rows)))}
        ranked = dict.fromkeys(_family(row) for row in rows if is_ranked(row))
        self.families = [(name, families[name]) for name in ranked if len(families) <= FAMILIES]
        self.dots: list[dict[str, Any]] = [
            {
                "name": plain(shown_name(row)),
                "kind": self.kind[id(row)],
                "world": self.worlds.index(settings_label(row, leaderboard)),
                "condition": conditions[id(row)],
                "colour": families[_family(row)] % FAMILIES,
                "x": {by: self._at(self.axes[by], figure(row, key)) for by, key in self.costs.items()},
                "y": {name: self._at(self.height, figure(row, key)) for name, key in keys.items()},
                "tip": {name: _tip(row, leaderboard, name) for name in self.gradings},
            }
            for row in rows
        ]
        names = [(dot["world"], str(row.get("agent")), str(row.get("model"))) for dot, row in zip(self.dots, rows, strict=True)]
        lines = grouped(range(len(rows)), names.__getitem__)
        self.lines = [sorted(line, key=lambda n: budget_order(rows[n].get("budget") or {})) for line in lines.values()]

    @staticmethod
    def _at(axis: Axis, value: float | None) -> float | None:
        return None if value is None else axis.at(value)

    def kind_of(self, condition: int) -> str:
        """The kind of rows that is shown first under a condition: played ones, if there are any."""
        ranked = {self.kind[id(row)] for row in self.groups[condition] if is_ranked(row)}
        return next((kind for kind in self.kinds if kind in ranked), self.kinds[0])

    def ranked(self, group: Iterable[Row], kind: str, leaderboard: Mapping[str, Any], grading: str) -> list[Row]:
        """The ranked rows of a kind, the best first under a grading."""
        key = ranking_metric(leaderboard, grading)
        rows = [row for row in group if is_ranked(row) and self.kind[id(row)] == kind]
        return sorted(rows, key=lambda row: (-(figure(row, key) or 0.0), figure(row, COSTS["price"]) or 0.0))

    def fronts(self) -> dict[str, list[int]]:
        """The rows on the frontier, by condition, kind, grading and cost. Its last one is the best under that condition, as the
        answer says."""
        leaders = {}
        for condition, kind, grading, by in itertools.product(range(len(self.groups)), self.kinds, self.gradings, self.costs):
            points = {
                number: (dot["x"][by], dot["y"][grading])
                for number, dot in enumerate(self.dots)
                if (dot["condition"], dot["kind"]) == (condition, kind) and None not in (dot["x"][by], dot["y"][grading])
            }
            leaders[f"{condition} {kind} {grading} {by}"] = frontier({n: xy for n, xy in points.items() if xy[1] > 0})
        return leaders


def _steps(points: Sequence[tuple[float, float]]) -> str:
    """Write the corners of a frontier, in percent of the chart, as the page's script does."""
    corners: list[tuple[float, float]] = []
    for x, y in points:
        corners += [(x, corners[-1][1] if corners else y), (x, y)]
    return " ".join(f"{100 * x:.2f},{100 * (1 - y):.2f}" for x, y in corners)


def _family(row: Row) -> str:
    """What agents of one colour share: the strategy, without what is composed with it and without its training run."""
    return own_name(row).partition("+")[0]


def _limit(group: Sequence[Row], by: str, axis: Axis) -> float | None:
    """Where the limit of a condition stands on an axis; None for one without a limit, or with one beyond the axis."""
    limit = (group[0].get("budget") or {}).get(by)
    return axis.at(limit) if limit is not None and axis.low <= limit <= axis.high else None


def _tip(row: Row, leaderboard: Mapping[str, Any], grading: str) -> str:
    figures = main_figure(row, leaderboard, grading), _cost(row, leaderboard)
    return "\n".join(plain(line) for line in (shown_name(row), condition_label(row, leaderboard), *figures) if line)


def _cost(row: Row, leaderboard: Mapping[str, Any]) -> str:
    """The mean cost of an episode in words, with its interval."""
    if figure(row, COSTS["price"]) is None:
        return ""
    value, _, ends = estimate(row, COSTS["price"], "number", brief).partition(" ")
    return f"{with_unit(value, currency_of(leaderboard))} an episode {ends}".rstrip()


def _cards(chart: _Chart, condition: int, kind: str, grading: str, leaderboard: Mapping[str, Any]) -> dict[str, Any]:
    """The sentence and the three cards of a condition."""
    groups = chart.groups
    rows = chart.ranked(groups[condition], kind, leaderboard, grading)
    if not rows:
        label = condition_label(groups[condition][0], leaderboard)
        return {"sentence": plain(f"{label[:1].upper()}{label[1:]}: {NOBODY}"), "best": None, "cheap": None, "next": None}
    best = answer(rows, leaderboard, grading)
    dearer = _next(groups, condition, leaderboard)
    richer = [] if dearer is None else chart.ranked(dearer, kind, leaderboard, grading)
    after = answer(richer, leaderboard, grading) if richer else None
    return {
        "sentence": best.sentence,
        "best": best.leader and _card(chart, best.leader, leaderboard, grading),
        "cheap": best.cheapest and _card(chart, best.cheapest, leaderboard, grading),
        "next": after and after.leader and _card(chart, after.leader, leaderboard, grading),
    }


def _card(chart: _Chart, row: Row, leaderboard: Mapping[str, Any], grading: str) -> dict[str, Any]:
    return {
        "row": chart.numbers[id(row)],
        "name": shown_name(row),
        "badge": "simulated" if is_simulated(row) else badge(row),
        "budget": budget_label(row.get("budget"), currency_of(leaderboard)),
        "figure": main_figure(row, leaderboard, grading),
        "success": cost_of_success(row, leaderboard, grading),
        "cost": _cost(row, leaderboard),
    }


def _next(groups: Sequence[Sequence[Row]], condition: int, leaderboard: Mapping[str, Any]) -> Sequence[Row] | None:
    """The condition of the same world with the next larger budget."""
    here = groups[condition][0]
    world, budget = settings_label(here, leaderboard), budget_order(here.get("budget") or {})
    larger = [
        group
        for group in groups
        if settings_label(group[0], leaderboard) == world and budget_order(group[0].get("budget") or {}) > budget
    ]
    return min(larger, key=lambda group: budget_order(group[0].get("budget") or {}), default=None)
