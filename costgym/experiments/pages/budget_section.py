"""The first answer of a leaderboard's page: which agent for a budget, and at what cost.

A row is within a budget if the upper end of its cost's 95 % interval is. The best one is recommended, beside agents that the
paired test cannot tell from it. Everything is computed here: the script of the page looks up steps and moves what stands there.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from markupsafe import Markup

from costgym.experiments.board.conditions import (
    PASS_RATE,
    budget_label,
    condition_label,
    currency_of,
    ranking_metric,
    seeds_of,
    settings_of,
)
from costgym.experiments.board.rows import (
    ALONE,
    ONLY,
    PLAYED,
    SIMULATED,
    UNMETERED,
    as_good,
    block_of,
    columns_of,
    is_reference,
    is_void,
    rivals_text,
    shown_name,
)
from costgym.experiments.pages.html import part
from costgym.experiments.play.metric_registry import REGISTRY, Row, cell, figure, interval, plain, written
from costgym.experiments.play.metrics import GRADINGS

COSTS = {"price": "average_cost", "seconds": "average_seconds"}  # the figure of a row that a budget of each resource limits
BOUND = "bound"  # a kind of row beside the blocks in which rows are ranked
MIN_LOG_RATIO = 15  # of the highest to the lowest cost, from which on an axis is logarithmic
MAX_TICKS = 6
WEST = 0.12  # of the width: names there stand below their marks, or they would cover the axis
NOBODY = "No agent that passes stays within this budget."
NO_SUCCESS = "No agent has a success within this budget."
NO_MORE = "No agent is better, whatever the budget."
_NICE = (1.0, 2.0, 5.0, 10.0)

Tied = Callable[[Row, Sequence[Row]], Sequence[bool | None]]  # which other rows are as good as a leader


class Step(NamedTuple):
    """The row that leads from a budget on, and the other agents: the budget from which on each is there, its name, and whether
    it is as good as the leader, or None."""

    budget: float
    row: int
    rivals: tuple[tuple[float, str, bool | None], ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """A scale from `low` to `high`, with the values that are written at it."""

    low: float
    high: float
    logarithmic: bool
    ticks: tuple[float, ...]

    def place(self, value: float) -> float:
        """Return where a value lies, 0 to 1."""
        if self.logarithmic:
            share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return round(min(1.0, max(0.0, share)), 4)


def steps(rows: Mapping[int, Row], cost: str, score: Callable[[Row], float | None], tied: Tied) -> list[Step]:
    """Find which row leads within each budget of the figure `cost`, by the highest score, in the order of the budgets; a row
    without a score never does. `tied` says which other rows are as good as a leader."""
    entering = sorted((_upper(row, cost), number) for number, row in rows.items() if score(row) is not None)
    entering = [each for each in entering if math.isfinite(each[0])]
    found: list[tuple[float, int]] = []
    for upper, number in entering:
        if not found or (score(rows[number]) or 0.0) > (score(rows[found[-1][1]]) or 0.0):
            if found and found[-1][0] == upper:
                found.pop()
            found.append((upper, number))
    ends = [budget for budget, _ in (*found[1:], (math.inf, 0))] if found else []
    return [Step(budget, row, _rivals(rows, entering, row, end, tied)) for (budget, row), end in zip(found, ends, strict=True)]


def _rivals(
    rows: Mapping[int, Row], entering: Sequence[tuple[float, int]], leader: int, end: float, tied: Tied
) -> tuple[tuple[float, str, bool | None], ...]:
    others = [(upper, n) for upper, n in entering if upper < end and rows[n].get("agent") != rows[leader].get("agent")]
    first: dict[tuple[str, bool | None], float] = {}
    for (upper, number), alike in zip(others, tied(rows[leader], [rows[n] for _, n in others]), strict=True):
        first.setdefault((plain(shown_name(rows[number])), alike), upper)
    return tuple((upper, name, alike) for (name, alike), upper in first.items())


def _upper(row: Row, cost: str) -> float:
    value, ends = figure(row, cost), interval(row, cost)
    return math.inf if value is None else value if ends is None else max(value, ends[1])


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
    places = range(math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9) + 1)
    ticks = tuple(float(f"{place * step:.6g}") for place in places)
    return Axis(ticks[0], ticks[-1], False, ticks)


def world_of(row: Row, leaderboard: Row) -> str:
    """Name the world of a row: its condition without the budget. Rows of one world played the same tasks with the same luck."""
    return condition_label({**row, "budget": {}}, leaderboard) if settings_of(row, leaderboard) else ""


def kind_of(row: Row) -> str:
    return BOUND if is_reference(row) else block_of(row)


@dataclass(frozen=True, slots=True)
class BudgetSection:
    """The first screen of a page."""

    html: Markup  # as it stands before the script moves anything
    data: dict[str, Any]  # what the script needs: `places` of the rows, and `advice` by world, kind, grading and resource


def budget_section(rows: Sequence[Row], leaderboard: Mapping[str, Any], first: Row, grading: str) -> BudgetSection:
    """Make the first screen of a track's page, of the world of a row that is shown first."""
    view = _View(rows, leaderboard)
    start: dict[str, Any] = {
        "world": view.worlds.index(world_of(first, leaderboard)),
        "kind": view.kinds[0],
        "by": next(iter(view.costs)),
        "grading": grading,
    }
    advice = [
        {
            kind: {name: {by: view.advice(number, kind, name, by) for by in view.costs} for name in view.gradings}
            for kind in view.kinds
        }
        for number in range(len(view.worlds))
    ]
    chosen = advice[start["world"]][start["kind"]][grading][start["by"]]
    best = chosen["best"]
    budget = _rounded_up(best[len(best) // 2].budget) if best else view.axes[start["by"]].high
    places = [view.place(row) for row in rows]
    marked = {(each["name"], each["world"]): number for number, each in enumerate(places) if each["kind"] == BOUND}
    for number in marked.values():  # the last of each bound bears its name
        places[number]["named"] = True
    data = {
        "start": {**start, "budget": budget},
        "units": view.units,
        "axes": {name: {"low": axis.low, "high": axis.high, "log": axis.logarithmic} for name, axis in view.axes.items()},
        "advice": advice,
        "words": {"best": NOBODY, "cheap": NO_SUCCESS, "next": NO_MORE, "alone": ALONE, "only": ONLY, "main": view.word},
        "places": places,
    }
    html = part(
        "budget.html",
        view=view,
        start=start,
        budget=f"{_short(budget)} {view.units[start['by']]}".strip(),
        at=view.axes[start["by"]].place(budget),
        cards=_cards(chosen, budget, places, grading, start["by"], view.units[start["by"]], view.word),
        dots=_dots(places, start, best, budget),
        front=_front([(places[step.row]["x"][start["by"]], places[step.row]["y"][grading]) for step in best]),
        main=view.main.heading(view.currency),
        costs={
            name: f"Mean {'cost' if name == 'price' else 'time'} of an episode, {view.units[name]}".rstrip(", ")
            for name in view.costs
        },
        upper={name: [(axis.place(tick), _short(tick)) for tick in axis.ticks] for name, axis in view.axes.items()},
        side=[
            (view.height.place(tick), written(tick, "rate").removesuffix(".0") if view.rate else f"{tick:g}")
            for tick in view.height.ticks
        ],
    )
    return BudgetSection(html, data)


class _View:
    """The rows of a track as the first screen reads them."""

    def __init__(self, rows: Sequence[Row], leaderboard: Mapping[str, Any]) -> None:
        self.rows, self.leaderboard = rows, leaderboard
        self.main, self.currency = columns_of(leaderboard)[0], currency_of(leaderboard)
        self.rate = self.main.kind == "rate"
        self.word = "passes" if self.main.key == PASS_RATE else self.main.name.lower()
        self.seeds = seeds_of(leaderboard)
        self.units = {"price": self.currency, "seconds": "s"}
        self.gradings = GRADINGS if self.main.judge else GRADINGS[:1]
        self.keys = {name: ranking_metric(leaderboard, name) for name in GRADINGS}
        self.costs = {name: key for name, key in COSTS.items() if any(figure(row, key) for row in rows)} or {
            "price": COSTS["price"]
        }
        self.axes = {
            name: axis_of(
                [v for row in rows for v in (figure(row, key), _upper(row, key)) if v is not None and math.isfinite(v)]
            )
            for name, key in self.costs.items()
        }
        heights = [value for row in rows for key in self.keys.values() if (value := figure(row, key)) is not None]
        self.height = Axis(0.0, 1.0, False, (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)) if self.rate else axis_of(heights, from_zero=False)
        self.worlds = list(dict.fromkeys(world_of(row, leaderboard) for row in rows))
        self.kinds = [
            kind for kind in (PLAYED, SIMULATED) if any(kind_of(row) == kind and not is_void(row) for row in rows)
        ] or [UNMETERED]

    def advice(self, world: int, kind: str, grading: str, by: str) -> dict[str, list[Step]]:
        """Find who passes most, and whose successes are cheapest, within each budget."""
        own = {
            n: row
            for n, row in enumerate(self.rows)
            if kind_of(row) == kind and not is_void(row) and world_of(row, self.leaderboard) == self.worlds[world]
        }
        key, thrift = self.keys[grading], _cheap_key(grading)

        def passes(row: Row) -> float | None:
            value = figure(row, key)
            return None if self.rate and not value else value  # nobody is recommended who achieves nothing

        def tied(leader: Row, others: Sequence[Row]) -> list[bool | None]:
            return as_good(leader, others, key, self.seeds)

        def thrifty(row: Row) -> float | None:
            return None if (value := figure(row, thrift)) is None else -value

        cheap = steps(own, self.costs[by], thrifty, lambda _, others: [None] * len(others))
        return {"best": steps(own, self.costs[by], passes, tied), "cheap": cheap}

    def place(self, row: Row) -> dict[str, Any]:
        """Say where a row stands in the chart, and its figures in words."""
        at = {name: figure(row, key) for name, key in self.costs.items()}
        high = {name: figure(row, key) for name, key in self.keys.items() if name in self.gradings}
        return {
            "name": plain(shown_name(row)),
            "world": self.worlds.index(world_of(row, self.leaderboard)),
            "kind": kind_of(row),
            "limit": f"limit of {budget_label(row['budget'], self.currency)}" if row.get("budget") else "",
            "x": {name: None if value is None else self.axes[name].place(value) for name, value in at.items()},
            "y": {name: None if value is None else self.height.place(value) for name, value in high.items()},
            "main": {name: self._main(row, self.keys[name]) for name in high},
            "cost": {name: _said(row, key, self.units[name]) for name, key in self.costs.items()},
            "cheap": {name: _said(row, _cheap_key(name), self.currency) for name in high},
        }

    def _main(self, row: Row, key: str) -> list[Any]:
        """Return figure, ends of its interval as text, and where they lie."""
        ends = interval(row, key)
        band = None if ends is None else [self.height.place(end) for end in ends]
        return [*_said(row, key, "%" if self.rate else "", self.main.kind), band]


def _cheap_key(grading: str) -> str:
    return REGISTRY["cost_per_success"].key_under(grading)


def _said(row: Row, key: str, unit: str, kind: str = "number") -> list[str]:
    """Write a figure with its unit, and its interval."""
    shown = cell(row, key, kind)
    return [f"{shown['value']} {unit}".strip(), " to ".join(shown["ends"] or ())]


def within(found: Sequence[Step], budget: float) -> Step | None:
    """Return the step that holds at a budget."""
    return next((step for step in reversed(found) if step.budget <= budget * (1 + 1e-9)), None)


def _cards(
    chosen: Mapping[str, Sequence[Step]], budget: float, places: Sequence[Row], grading: str, by: str, unit: str, word: str
) -> dict[str, Any]:
    """Fill the three cards, as the page's script does."""
    best, cheap = within(chosen["best"], budget), within(chosen["cheap"], budget)
    after = next((step for step in chosen["best"] if best is None or step.budget > best.budget), None)
    found: dict[str, Any] = {"best": None, "cheap": None, "next": None, "band": "", "cost": ""}
    under = {"best": NOBODY, "cheap": NO_SUCCESS, "next": NO_MORE}
    if best is not None:
        row = found["best"] = places[best.row]
        band = row["main"][grading][2]
        found["band"] = f"left:{100 * band[0]:.2f}%;right:{100 * (1 - band[1]):.2f}%" if band else ""
        found["cost"] = _cost_text(row, by)
        under["best"] = rivals_text([(name, alike) for at, name, alike in best.rivals if at <= budget])
    if cheap is not None:
        row = found["cheap"] = places[cheap.row]
        under["cheap"] = f"{word} {row['main'][grading][0]}, {_cost_text(row, by)}"
    if after is not None:
        row = found["next"] = places[after.row]
        under["next"] = f"from {_short(after.budget)} {unit} a task, {_cost_text(row, by)}".replace("  ", " ")
    return {**found, "under": under}


def _cost_text(row: Mapping[str, Any], by: str) -> str:
    value, ends = row["cost"][by]
    return f"{value} an episode" + (f" ({ends})" if ends else "") + (f", {row['limit']}" if row["limit"] else "")


def _dots(places: Sequence[Row], start: Mapping[str, Any], best: Sequence[Step], budget: float) -> list[dict[str, Any]]:
    """Return the marks of the chart, one a row; the first of each agent on the frontier bears its name."""
    leads, now = {step.row for step in best}, within(best, budget)
    named = {places[step.row]["name"]: step.row for step in reversed(best)}.values()
    dots = []
    for number, each in enumerate(places):
        x, y = each["x"][start["by"]], each["y"].get(start["grading"])
        classes = [each["kind"] if each["kind"] in (BOUND, start["kind"]) else "other"]
        classes += ["lead"] if number in leads else []
        classes += ["named"] if number in named or "named" in each else []
        classes += ["chosen"] if now is not None and number == now.row else []
        classes += ["west"] if x is not None and x < WEST else []
        shown = None not in (x, y) and each["world"] == start["world"]
        dots.append({"x": x, "y": y, "classes": " ".join(classes), "shown": shown, "name": each["name"]})
    return dots


def _front(points: Sequence[tuple[float, float]]) -> str:
    """Write the corners of the frontier, in percent of the chart, to its right edge."""
    corners: list[tuple[float, float]] = []
    for x, y in points:
        corners += [(x, corners[-1][1] if corners else y), (x, y)]
    corners += [(1.0, corners[-1][1])] if corners else []
    return " ".join(f"{100 * x:.2f},{100 * (1 - y):.2f}" for x, y in corners)


def _short(value: float) -> str:
    return f"{float(f'{value:.3g}'):,.10g}"


def _rounded_up(value: float) -> float:
    """Round up to two significant digits."""
    if value <= 0:
        return value
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / unit - 1e-9) * unit:.6g}")
