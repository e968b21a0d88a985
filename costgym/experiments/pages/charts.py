"""Static charts of pages: matplotlib's, as SVG that takes its colours and fonts from the page.

Nothing here uses pyplot or changes a global setting, and the same figures give the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.etree import ElementTree

from markupsafe import Markup

from costgym.experiments.play.plots import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 4.7, 3.1  # inches; the page scales them
FONT_SIZE = 8.5  # points
MAX_TICKS = 10  # of a panel; more would overlap
SERIES = 12  # colours that pages have, --c0 to --c11
LONGEST_NAME = 28  # characters


# Stand-ins that become the page's own colours.
_INK, _QUIET, _RULE = "#010101", "#020202", "#030303"
_COLOURS = tuple(f"#0101{16 + index:02x}" for index in range(SERIES))
_VARIABLES = {_INK: "var(--ink)", _QUIET: "var(--quiet)", _RULE: "var(--rule)"}
_VARIABLES |= {colour: f"var(--c{index})" for index, colour in enumerate(_COLOURS)}
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "costgym",
    "font.family": "DejaVu Sans",
    "font.size": FONT_SIZE,
    "axes.edgecolor": _QUIET,
    "axes.labelcolor": _QUIET,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": _QUIET,
    "ytick.color": _QUIET,
    "text.color": _INK,
    "axes.unicode_minus": True,
}
_XLINK = "{http://www.w3.org/1999/xlink}href"
_SVG = "{http://www.w3.org/2000/svg}"


class Series(NamedTuple):
    """A line or a set of marks in a chart."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]
    colour: int
    dashed: bool = False


class Panel(NamedTuple):
    """A chart of a picture that holds several; its lines begin at zero."""

    title: str
    x_label: str
    series: Sequence[Series]


def curve(
    steps: Sequence[float],
    values: Sequence[float],
    mean: Sequence[float],
    span: tuple[float, float],
    name: str,
    limit: float | None = None,
) -> Markup:
    """Draw a learning curve: every value faint, their running mean strong, and the limit that they must keep under. Values
    beyond the span of the y axis lie on its edge."""
    low, high = span
    with _chart("step", "", 3.9, 2.2) as (figure, axes):
        if len(steps) == 1:
            axes.scatter(steps, values, s=24, color=_COLOURS[0])
        else:
            axes.plot(steps, [min(max(value, low), high) for value in values], color=_COLOURS[0], lw=0.8, alpha=0.3)
            axes.plot(steps, mean, color=_COLOURS[0], lw=1.5)
        if limit is not None:
            axes.axhline(limit, color=_COLOURS[1], lw=1.1, ls="--")
            position: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "va": "bottom"}
            axes.annotate(f"limit {limit:g}", (1, limit), (0, 2), ha="right", color=_COLOURS[1], **position)
        axes.set_ylim(low, high)
        axes.xaxis.set_major_formatter(lambda value, _: _thousands(value))
    return _svg(figure, name)


class Estimate(NamedTuple):
    """A figure with its interval, and another beside it."""

    name: str
    value: float
    low: float
    high: float
    other: float


def distributions(curves: Sequence[Sequence[float]], name: str) -> Markup:
    """The shares of calls that take up to x seconds, on a logarithmic axis: the first curve is wide, the others lie over it,
    dashed."""
    with _chart("seconds", "share of calls", 3.9, 2.2) as (figure, axes):
        for index, values in enumerate(curves):
            shares = [(number + 1) / len(values) for number in range(len(values))]
            style = {"lw": 3.2, "alpha": 0.45} if index == 0 else {"lw": 1.3, "ls": (0, (4, 2))}
            axes.step(values, shares, where="post", color=_COLOURS[index], **style)
        _make_logarithmic(axes)
        axes.set_ylim(0, 1.02)
    return _svg(figure, name)


def estimates(rows: Sequence[Estimate], name: str) -> Markup:
    """Shares with their intervals in the first colour, one a line, and others over them in the second."""
    with _chart("", "", 3.9, 0.6 + 0.36 * len(rows)) as (figure, axes):
        for line, row in enumerate(rows):
            axes.plot([row.low, row.high], [line, line], color=_COLOURS[0], lw=6, alpha=0.35, solid_capstyle="butt")
            axes.plot([row.value], [line], marker="|", ms=12, mew=2, color=_COLOURS[0])
            axes.plot([row.other], [line], marker="D", ms=4.5, color=_COLOURS[1], zorder=3)
        axes.set_yticks(range(len(rows)), [row.name for row in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlim(-0.02, 1.02)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    return _svg(figure, name)


def panels(grid: Sequence[Sequence[Panel]]) -> str:
    """Draw line charts in rows and columns, as an SVG file of its own."""
    with _figure(WIDTH * len(grid[0]), HEIGHT * len(grid)) as figure:
        grid_axes = figure.subplots(len(grid), len(grid[0]), squeeze=False)
        for panel, axes in zip((panel for line in grid for panel in line), grid_axes.flat, strict=True):
            axes.grid(axis="y", color=_RULE, lw=0.6)
            axes.set_title(panel.title, loc="left", fontsize=FONT_SIZE, color=_QUIET)
            axes.set_xlabel(panel.x_label)
            for series in panel.series:
                colour, style = _COLOURS[series.colour % SERIES], "--" if series.dashed else "-"
                axes.plot(series.xs, series.ys, style, color=colour, lw=1.4, marker="o", ms=3.5)
            if any(y < 0 for series in panel.series for y in series.ys):
                axes.axhline(0, color=_QUIET, lw=0.6)
            else:
                highest = max((y for series in panel.series for y in series.ys), default=0.0)
                axes.set_ylim(0, max(axes.get_ylim()[1], 1.04 * highest))
            if panel.series:
                at = sorted({x for series in panel.series for x in series.xs})
                if len(at) <= MAX_TICKS:  # else matplotlib places them
                    axes.set_xticks(at)
                _name_at_the_end(axes, panel.series)
        return _file(figure)


def beside(rows: Sequence[Estimate], x_label: str, margin: float, names: tuple[str, str]) -> str:
    """Draw figures with their intervals beside others with a margin, one a line, as an SVG file of its own; what lies far
    beyond the others leaves the frame, and stands there as a number."""
    low, high = (pick(row.other for row in rows) for pick in (min, max))
    edge = 2 * margin + 0.25 * (high - low)
    with _figure(2 * WIDTH, 0.9 + 0.24 * len(rows)) as figure:
        axes = figure.subplots()
        axes.axvline(0, color=_QUIET, lw=0.8)
        for line, row in enumerate(rows):
            axes.plot(
                [row.other - margin, row.other + margin], [line, line], color=_RULE, lw=9, solid_capstyle="butt", zorder=1
            )
            axes.plot([row.other], [line], "D", ms=5, color=_COLOURS[1], label=names[1] if not line else None)
            axes.plot([row.low, row.high], [line, line], color=_COLOURS[0], lw=2)
            axes.plot([row.value], [line], "o", ms=5, color=_COLOURS[0], label=names[0] if not line else None)
            text = f"{row.value:+.{1 if margin >= 1 else 3}f}".replace("-", "−")
            axes.annotate(text, (1.01, line), xycoords=("axes fraction", "data"), va="center", color=_COLOURS[0])
        axes.set_xlim(low - edge, high + edge)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_yticks(range(len(rows)), [row.name for row in rows])
        axes.set_xlabel(x_label)
        axes.tick_params(length=0)
        figure.legend(loc="outside upper right", ncols=2, frameon=False)
        return _file(figure)


def _file(figure: Figure) -> str:
    """Return a figure as an SVG with colours of its own, for files outside pages."""
    text = _saved(figure, facecolor="white")
    for colour, fixed in zip((_INK, _QUIET, _RULE, *_COLOURS), ("#222222", "#666666", "#dddddd", *COLOURS), strict=True):
        text = text.replace(colour, fixed)
    return text


def _saved(figure: Figure, **style: Any) -> str:
    import matplotlib as mpl

    store = io.StringIO()
    with mpl.rc_context(_SETTINGS):
        figure.savefig(store, format="svg", metadata={"Date": None, "Creator": None}, **style)
    return store.getvalue()


@contextmanager
def _figure(width: float, height: float) -> Iterator[Figure]:
    """An empty figure; what is drawn inside the block has the style of the pages."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_SETTINGS):
        yield Figure(figsize=(width, height), layout="constrained")


@contextmanager
def _chart(x_label: str, y_label: str, width: float = WIDTH, height: float = HEIGHT) -> Iterator[tuple[Figure, Axes]]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    with _figure(width, height) as figure:
        FigureCanvasAgg(figure)  # measures texts
        axes = figure.add_subplot()
        axes.grid(axis="y", color=_RULE, lw=0.6)
        axes.set_axisbelow(True)
        axes.set_xlabel(x_label)
        axes.set_title(y_label, loc="left", fontsize=FONT_SIZE, color=_QUIET)
        axes.tick_params(length=3, width=0.6)
        yield figure, axes


def _make_logarithmic(axes: Axes) -> None:
    """Make the x axis logarithmic, with plain numbers at each power of ten and at twice and five times it."""
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_formatter(lambda value, _: f"{value:g}" if f"{value:e}"[0] in "25" else "")


def _thousands(value: float) -> str:
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}".replace("-", "−")


def _short_name(name: str) -> str:
    """Shorten a name so that it leaves room for the chart: a path keeps its last part."""
    last = name.rstrip("/").rpartition("/")[2]
    return last if len(last) <= LONGEST_NAME else f"{last[: LONGEST_NAME - 1]}…"


def _name_at_the_end(axes: Axes, series: Sequence[Series]) -> None:
    """Write names at the right edge, moved apart where they would overlap."""
    low, high = axes.get_ylim()
    # the height of a line of text, in units of the axis
    step = (high - low) * 1.25 * FONT_SIZE / (72 * HEIGHT * 0.72)
    wanted = sorted((max(line.ys[-1], low), line.name, line.colour) for line in series)
    # each is pushed up from the one below where they overlap; then all move down if the topmost left the frame
    heights: list[float] = []
    for y, _, _ in wanted:
        heights.append(max(y, heights[-1] + step) if heights else y)
    overflow = max(0.0, heights[-1] - high) if heights else 0.0
    for (_, name, colour), height in zip(wanted, heights, strict=True):
        style: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "va": "center", "annotation_clip": False}
        axes.annotate(_short_name(name), (1.02, height - overflow), color=_COLOURS[colour % SERIES], **style)


def _svg(figure: Figure, name: str) -> Markup:
    """Turn a figure into an element of a page, without unused identifiers, fonts or colours of its own."""
    drawn = _saved(figure, transparent=True)
    ElementTree.register_namespace("", _SVG[1:-1])
    ElementTree.register_namespace("xlink", _XLINK[1:].partition("}")[0])
    root = ElementTree.fromstring(drawn)
    # matplotlib gives an id to everything; only those that something refers to are needed
    referred = set(re.findall(r"url\(#([^)]+)\)", drawn)) | {
        node.attrib[_XLINK][1:] for node in root.iter() if _XLINK in node.attrib
    }
    # made from the content: charts of one page do not collide, and the same chart has the same bytes
    prefix = "c" + hashlib.blake2b(f"{name}\n{drawn}".encode(), digest_size=4).hexdigest() + "-"
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{_SVG}metadata", f"{_SVG}style"):
                parent.remove(child)
        if parent.attrib.get("id") not in referred:
            parent.attrib.pop("id", None)
        for key, value in parent.attrib.items():  # charts of one page have marks and frames of their own
            if key == "id":
                parent.attrib[key] = f"{prefix}{value}"
            elif key == _XLINK or "url(#" in value:
                parent.attrib[key] = value.replace("#", f"#{prefix}")
        style = parent.attrib.get("style")
        if style is not None:
            parent.attrib["style"] = re.sub(r"font: ([\d.]+px)[^;]*", r"font-size: \1", style)
    root.attrib.pop("width", None)
    root.attrib.pop("height", None)
    root.attrib |= {"role": "img", "aria-label": name, "class": "chart"}
    text = ElementTree.tostring(root, encoding="unicode")
    for colour, variable in _VARIABLES.items():
        text = text.replace(colour, variable)
    return Markup(re.sub(r"\n\s*", "\n", text))
