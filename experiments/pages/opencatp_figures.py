"""The figures of an OpenCATP leaderboard: plan score over the image's size and over α."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from ..board.rows import is_simulated, shown_name
from ..play.metric_registry import plain
from .charts import Series, lines
from .html import part

KINDS = {"sequential": "Sequential tasks", "nonsequential": "Non-sequential tasks"}
_NOT_DRAWN = ("random",)  # a random walk is so far below the others that it would flatten them; the table has it

Row = Mapping[str, Any]


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


def _name(row: Row) -> str:
    return plain(shown_name(row)) + (" †" if is_simulated(row) else "")


def _quality_by_level(rows: Sequence[Row], colours: Mapping[str, int], title: str) -> dict[str, Any] | None:
    series = []
    for row in rows:
        levels = [level for level in row["by_level"] if level["quality"] is not None]
        if len(levels) > 1:
            xs, ys = [level["level"] for level in levels], [level["quality"] for level in levels]
            series.append(Series(_name(row), xs, ys, colours[row["agent"]]))
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
    for agent in dict.fromkeys(row["agent"] for row in rows):
        own = sorted((row for row in rows if row["agent"] == agent), key=lambda row: float(row["alpha"]))
        if own:
            xs, ys = [row["alpha"] for row in own], [row["quality_of_plan"] for row in own]
            series.append(Series(_name(own[0]), xs, ys, colours[agent]))
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
