"""Draw an episode's Gantt chart as an image or as a page."""

from functools import lru_cache
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from costgym.envs.rendering.chart import COLOURS, Bar, Chart, Marker, Row, ticks

INK, FAINT, GRID, PAPER, EVENT, LIMIT = "#222222", "#666666", "#E6E6E6", "#FFFFFF", "#0072B2", "#D55E00"
MARGIN, LANE, BAR, GAP, TEXT = 16, 18, 13, 8, 12
"""Pixels: margin of the picture, height of a lane and of a bar in it, gap between rows, height of the text."""
MAX_TITLE_LINES = 6
_DASH = 4


# -- layout ---------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def font(size: int) -> Any:
    return ImageFont.load_default(size)


def text_width(text: str, size: int = TEXT) -> float:
    return float(font(size).getlength(text))


def fit(text: str, room: float, size: int = TEXT, tail: bool = True) -> str:
    """Cut a text to one line of the given width, to its beginning or, with `tail`, its beginning and end."""
    text = " ".join(text.split())
    if text_width(text, size) <= room:
        return text
    # longer than any picture is wide, and measuring takes time in proportion to the length
    length = min(len(text), 400)
    while length > 2:
        length -= max(1, length // 12)
        end = length // 3 if tail else 0
        short = f"{text[: length - end].rstrip()}...{text[len(text) - end :]}"
        if text_width(short, size) <= room:
            return short
    return ""


def wrap(text: str, room: float, size: int, most: int) -> list[str]:
    """Break a text into at most so many lines of the given width; the last is cut where there is more."""
    words, lines = text.split(), [""]
    while words:
        longer = f"{lines[-1]} {words[0]}".strip()
        if text_width(longer, size) <= room:
            lines[-1] = longer
            words.pop(0)
        elif len(lines) == most:
            return [*lines[:-1], fit(" ".join([lines[-1], *words]), room, size, tail=False)]
        elif lines[-1]:
            lines.append("")
        else:  # a word that is wider than a line
            lines[-1] = fit(words.pop(0), room, size, tail=False)
            lines += [""] if words else []
    return lines


class _Layout:
    """The layout of a chart in pixels, shared by the image and the page."""

    def __init__(self, chart: Chart, width: int) -> None:
        self.chart, self.width = chart, width
        inner = width - 2 * MARGIN
        # the name column: as wide as the longest name, but not over a third of the picture
        names = [row.name for row in chart.rows] + [meter.resource for meter in chart.meters]
        longest = max(map(text_width, names), default=0.0)
        self.left = MARGIN + min(longest, 0.32 * inner) + GAP
        self.right = float(width - MARGIN - 26)  # room for a price beside the last bar
        self.title = wrap(chart.title, inner, TEXT + 3, MAX_TITLE_LINES)
        self.title_tops = [MARGIN - 4.0 + i * (TEXT + 7) for i in range(len(self.title))]
        self.lines = [fit(chart.subtitle, inner), fit(chart.verdict, inner)]
        y = self.title_tops[-1] + TEXT + 14
        self.line_tops = [y + i * (TEXT + 6) for i in range(2)]
        y = self.line_tops[-1] + TEXT + 14
        self.events, event_lanes = self._place_events()
        self.events_top = y
        y += event_lanes * (TEXT + 3) + (4 if event_lanes else 0)
        self.top = y
        self.row_tops = []
        y = self.top + GAP
        for row in chart.rows:
            self.row_tops.append(y)
            y += row.lanes * LANE + GAP
        self.bottom = y if chart.rows else self.top + 40
        self.ticks = ticks(chart.span_s, max(2, int((self.right - self.left) // 90)))
        y = self.bottom + TEXT + 22
        self.meter_tops = [y + i * (TEXT + 8) for i in range(len(chart.meters))]
        y += len(chart.meters) * (TEXT + 8) + (6 if chart.meters else 0)
        self.legend: list[tuple[str, float, float]] = []
        x = float(MARGIN)
        for name in chart.meanings:
            need = 20 + text_width(name) + 18
            if x + need > width - MARGIN and x > MARGIN:
                x, y = float(MARGIN), y + TEXT + 8
            self.legend.append((name, x, y))
            x += need
        self.height = int(y + (TEXT if chart.meanings else 0) + MARGIN)

    def x(self, at_s: float) -> float:
        return self.left + (self.right - self.left) * at_s / self.chart.span_s

    def _place_events(self) -> tuple[list[tuple[Marker, float, int]], int]:
        """The markers with the position and the line of their text; texts that would overlap are stacked."""
        ends: list[float] = []
        placed = []
        for marker in self.chart.markers:
            room = text_width(marker.text, TEXT - 1)
            x = self.x(marker.at_s) + 3
            if x + room > self.width - MARGIN:
                x -= room + 7
            line = next((line for line, end in enumerate(ends) if end + 6 <= x), len(ends))
            ends[line : line + 1] = [x + room]
            placed.append((marker, x, line))
        return placed, len(ends)

    def bars(self, row: Row, top: float) -> list[tuple[Bar, list[tuple[str, float, float]], float, tuple[float, str] | None]]:
        """A row's bars: (bar, parts as (meaning, from, to), top, label as (x, colour) or None if it has no room)."""
        drawn = []
        for i, bar in enumerate(row.bars):
            parts = [("queueing", bar.asked_s, bar.started_s), ("cold start", bar.started_s, bar.ready_s)]
            pixels = [(name, self.x(a), self.x(b)) for name, a, b in parts if b > a]
            begin, end = self.x(bar.ready_s), self.x(bar.end_s)
            end = max(end, begin + 2)
            if bar.end_s > bar.ready_s or bar.meaning == "refused" or not pixels:
                pixels.append((bar.meaning, begin, end))
            after = min((self.x(b.asked_s) for b in row.bars[i + 1 :] if b.lane == bar.lane), default=self.width - MARGIN / 2)
            room = text_width(bar.label, TEXT - 2)
            label: tuple[float, str] | None = None
            if bar.label and room + 6 <= end - begin:
                label = (begin + 3, PAPER if bar.meaning in ("ok", "failed", "refused", "cut off") else INK)
            elif bar.label and end + 3 + room + 2 <= after:
                label = (end + 3, INK)
            drawn.append((bar, pixels, top + bar.lane * LANE + (LANE - BAR) / 2, label))
        return drawn


# -- the drawing ----------------------------------------------------------------------------------------------------------


def _draw(pen: "_ImagePen | _PagePen", layout: _Layout) -> None:
    """Draw a chart, what is behind first. A pen takes colours as CSS names them; a text's `anchor` says which part is at x."""
    chart, left, right = layout.chart, layout.left, layout.right
    for line, top in zip(layout.title, layout.title_tops, strict=True):
        pen.text(MARGIN, top + TEXT + 4, line, INK, TEXT + 3)
    for line, top in zip(layout.lines, layout.line_tops, strict=True):
        pen.text(MARGIN, top + TEXT, line, FAINT)
    for begin, end in chart.outages:
        x = layout.x(begin)
        pen.box(x, layout.top, layout.x(end) - x, layout.bottom - layout.top, COLOURS["outage"], "outage")
    for tick in layout.ticks:
        pen.line(layout.x(tick), layout.top, layout.bottom, GRID)
        pen.text(layout.x(tick), layout.bottom + TEXT + 4, f"{tick:g} s", FAINT, TEXT - 1, "middle")
    if not chart.rows:
        pen.text((left + right) / 2, layout.top + 24, "no calls", FAINT, TEXT, "middle")
    for row, top in zip(chart.rows, layout.row_tops, strict=True):
        name = fit(row.name, left - MARGIN - GAP)
        pen.text(left - GAP, top + row.lanes * LANE / 2 + 4, name, INK, TEXT, "end", row.name)
        for bar, pieces, y, label in layout.bars(row, top):
            for meaning, begin, end in pieces:
                # a call that queues is a thin bar: it uses nothing yet
                inset = BAR / 2 - 2 if meaning == "queueing" else 0
                pen.box(begin, y + inset, max(1.0, end - begin), BAR - 2 * inset, COLOURS[meaning], bar.hint)
            if label is not None:
                pen.text(label[0], y + BAR - 3, bar.label, label[1], TEXT - 2)
    for marker, x, lane in layout.events:
        top, colour = layout.events_top + lane * (TEXT + 3), LIMIT if marker.is_limit else EVENT
        pen.line(layout.x(marker.at_s), top, layout.bottom, colour, True)
        pen.text(x, top + TEXT - 2, marker.text, colour, TEXT - 1)
    for meter, top in zip(chart.meters, layout.meter_tops, strict=True):
        length, share = (right - left) * 0.6, min(1.0, max(0.0, meter.used / meter.limit))
        pen.box(left, top, length, TEXT - 2, GRID, meter.text)
        pen.box(left, top, length * share, TEXT - 2, LIMIT if meter.used > meter.limit else EVENT, meter.text)
        pen.text(left + length + GAP, top + TEXT - 3, meter.text, INK)
        pen.text(left - GAP, top + TEXT - 3, meter.resource, FAINT, TEXT, "end")
    for meaning, x, y in layout.legend:
        pen.box(x, y, 12, TEXT, COLOURS[meaning], meaning)
        pen.text(x + 18, y + TEXT - 2, meaning, INK)


class _ImagePen:
    """Draws on an image."""

    def __init__(self, image: Image.Image) -> None:
        self._draw = ImageDraw.Draw(image)

    def text(self, x: float, y: float, text: str, colour: str, size: int = TEXT, anchor: str = "start", hint: str = "") -> None:
        self._draw.text((x, y), text, colour, font(size), anchor={"start": "ls", "middle": "ms", "end": "rs"}[anchor])

    def box(self, x: float, y: float, width: float, height: float, colour: str, hint: str) -> None:
        if width > 0:
            self._draw.rectangle((x, y, max(x, x + width - 1), y + height - 1), colour)

    def line(self, x: float, top: float, bottom: float, colour: str, dashed: bool = False) -> None:
        step = 2 * _DASH if dashed else max(1.0, bottom - top)
        while top < bottom:
            self._draw.line((x, top, x, min(top + (_DASH if dashed else step), bottom)), colour)
            top += step


class _PagePen:
    """Collects the elements of an SVG drawing."""

    def __init__(self) -> None:
        self.elements: list[str] = []

    def text(self, x: float, y: float, text: str, colour: str, size: int = TEXT, anchor: str = "start", hint: str = "") -> None:
        title = f"<title>{escape(hint)}</title>" if hint else ""
        attributes = f'x="{x:.1f}" y="{y:.1f}" fill="{colour}" font-size="{size}" text-anchor="{anchor}"'
        # whatever font the reader has: as wide as it was measured
        attributes += f' textLength="{text_width(text, size):.1f}" lengthAdjust="spacingAndGlyphs"'
        self.elements.append(f"<text {attributes}>{title}{escape(text)}</text>")

    def box(self, x: float, y: float, width: float, height: float, colour: str, hint: str) -> None:
        attributes = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"'
        self.elements.append(f"<rect {attributes}><title>{escape(hint)}</title></rect>")

    def line(self, x: float, top: float, bottom: float, colour: str, dashed: bool = False) -> None:
        dash = ' stroke-dasharray="4 4"' if dashed else ""
        ends = f'x1="{x:.1f}" x2="{x:.1f}" y1="{top:.1f}" y2="{bottom:.1f}"'
        self.elements.append(f'<line {ends} stroke="{colour}"{dash}/>')


def chart_picture(chart: Chart, width: int = 960, height: int | None = None) -> NDArray[np.uint8]:
    """Draw a chart as an RGB image, (height, width, 3) uint8.

    A given height is filled with white, or the picture is scaled down to it, so that all frames of a video have one size.
    """
    layout = _Layout(chart, max(320, width))
    image = Image.new("RGB", (layout.width, layout.height), PAPER)
    _draw(_ImagePen(image), layout)
    if height is not None and height != layout.height:
        if layout.height > height:
            image = image.resize((max(1, layout.width * height // layout.height), height), Image.Resampling.LANCZOS)
        # on a white frame, since the frames of a video must be of one size
        frame = Image.new("RGB", (layout.width, height), PAPER)
        frame.paste(image, (0, 0))
        image = frame
    return np.array(image)


def chart_drawing(chart: Chart, name: str, width: int = 960) -> str:
    """Draw a chart as SVG with the given accessible name; bars have tooltips."""
    layout, pen = _Layout(chart, max(320, width)), _PagePen()
    _draw(pen, layout)
    drawing = "\n".join(pen.elements)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {layout.width} {layout.height}" '
        f'width="{layout.width}" height="{layout.height}" font-family="system-ui, sans-serif">\n'
        f"<title>{escape(name)}</title>\n"
        f'<rect width="100%" height="100%" fill="{PAPER}"/>\n'
        f"{drawing}\n</svg>\n"
    )
