"""Draw an episode's Gantt chart as an image or as a page."""

from base64 import b64encode
from collections.abc import Sequence
from functools import lru_cache
from html import escape
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from costgym.envs.rendering.chart import COLOURS, Bar, Chart, Marker, Row, ticks
from costgym.envs.rendering.choice import Choice, Picture

INK, FAINT, GRID, PAPER, EVENT, LIMIT = "#222222", "#666666", "#E6E6E6", "#FFFFFF", "#0072B2", "#D55E00"
MARGIN, LINE, BAR, GAP, TEXT = 16, 18, 13, 8, 12
"""Pixels: margin of the picture, height of a line and of a bar in it, gap between rows, height of the text."""
PICTURE = 168  # pixels; side of an image that a tool made
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


class Cell(NamedTuple):
    """A text at its place."""

    x: float
    y: float  # of its base line
    text: str
    colour: str
    size: int = TEXT
    anchor: str = "start"


class _Layout:
    """The layout of a chart in pixels, shared by the image and the page."""

    def __init__(self, chart: Chart, width: int, choice: Choice | None = None, pictures: Sequence[Picture] = ()) -> None:
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
        self.events, event_lines = self._place_events()
        self.events_top = y
        y += event_lines * (TEXT + 3) + (4 if event_lines else 0)
        self.top = y
        self.row_tops = []
        y = self.top + GAP
        for row in chart.rows:
            self.row_tops.append(y)
            y += row.track_count * LINE + GAP
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
        y += TEXT + MARGIN if chart.meanings else 0
        self.cells = list[Cell]()
        self.pictures = list[tuple[Picture, float, float, float]]()  # with left, top and width
        if choice is not None:
            y = self._place_choice(choice, y + TEXT)
        if pictures:
            y = self._place_pictures(pictures, y + 4)
        self.height = int(y + MARGIN)

    def _place_choice(self, choice: Choice, y: float) -> float:
        """Place the lines of a choice below `y`; returns where they end."""
        inner = self.width - 2 * MARGIN
        self.cells.append(Cell(MARGIN, y + TEXT, fit(choice.title, inner, TEXT + 1), INK, TEXT + 1))
        columns = MARGIN + 0.6 * inner, MARGIN + 0.74 * inner, MARGIN + 0.78 * inner
        y += LINE + 4
        for wish in choice.wishes:
            sign, colour = ("known", COLOURS["ok"]) if wish.done else ("open", LIMIT)
            self.cells.append(Cell(MARGIN, y + TEXT, sign, colour))
            self.cells.append(Cell(MARGIN + 44, y + TEXT, fit(wish.text, inner - 44, tail=False), INK))
            y += LINE
            for offer in wish.offers:
                name = f"{offer.action}  {offer.tool}" if offer.action else offer.tool
                self.cells.append(Cell(MARGIN + 60, y + TEXT - 1, fit(name, columns[0] - MARGIN - 130), FAINT))
                self.cells.append(Cell(columns[0], y + TEXT - 1, f"{offer.price} a call", INK, TEXT, "end"))
                success = f"{offer.success} success" if offer.success else ""
                self.cells.append(Cell(columns[1], y + TEXT - 1, success, INK, TEXT, "end"))
                self.cells.append(Cell(columns[2], y + TEXT - 1, fit(offer.calls, self.width - MARGIN - columns[2]), FAINT))
                y += LINE - 1
            if wish.more:
                self.cells.append(Cell(MARGIN + 60, y + TEXT - 1, f"and {wish.more} dearer ones", FAINT))
                y += LINE - 1
            y += 3
        return y

    def _place_pictures(self, pictures: Sequence[Picture], y: float) -> float:
        """Place images and texts side by side below `y`; returns where they end."""
        count, height = max(1, int((self.width - 2 * MARGIN + GAP) // (PICTURE + GAP))), PICTURE + 2 * LINE + GAP
        for index, picture in enumerate(pictures):
            x, top = MARGIN + index % count * (PICTURE + GAP), y + index // count * height
            self.cells.append(Cell(x, top + TEXT, fit(picture.title, PICTURE, TEXT - 1), INK, TEXT - 1))
            self.cells.append(Cell(x, top + 2 * TEXT + 2, fit(picture.about, PICTURE, TEXT - 1), FAINT, TEXT - 1))
            self.pictures.append((picture, x, top + 2 * LINE, PICTURE))
            if picture.image is None:
                for line, text in enumerate(wrap(picture.text or "(nothing)", PICTURE - 8, TEXT - 1, 8)):
                    self.cells.append(Cell(x + 4, top + 2 * LINE + (line + 1) * (TEXT + 3), text, FAINT, TEXT - 1))
        return y + -(-len(pictures) // count) * height

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
            after = min((self.x(b.asked_s) for b in row.bars[i + 1 :] if b.track == bar.track), default=self.width - MARGIN / 2)
            room = text_width(bar.label, TEXT - 2)
            label: tuple[float, str] | None = None
            if bar.label and room + 6 <= end - begin:
                label = (begin + 3, PAPER if bar.meaning in ("ok", "failed", "refused", "cut off") else INK)
            elif bar.label and end + 3 + room + 2 <= after:
                label = (end + 3, INK)
            drawn.append((bar, pixels, top + bar.track * LINE + (LINE - BAR) / 2, label))
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
        pen.text(left - GAP, top + row.track_count * LINE / 2 + 4, name, INK, TEXT, "end", row.name)
        for bar, pieces, y, label in layout.bars(row, top):
            for meaning, begin, end in pieces:
                # a call that queues is a thin bar: it uses nothing yet
                inset = BAR / 2 - 2 if meaning == "queueing" else 0
                pen.box(begin, y + inset, max(1.0, end - begin), BAR - 2 * inset, COLOURS[meaning], bar.hint)
            if label is not None:
                pen.text(label[0], y + BAR - 3, bar.label, label[1], TEXT - 2)
    for marker, x, level in layout.events:
        top, colour = layout.events_top + level * (TEXT + 3), LIMIT if marker.is_limit else EVENT
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
    for picture, x, top, size in layout.pictures:
        pen.box(x, top, size, size, GRID, picture.title)
        if picture.image is not None:
            pen.picture(x, top, size, picture)
    for cell in layout.cells:
        pen.text(*cell)


class _ImagePen:
    """Draws on an image."""

    def __init__(self, image: Image.Image) -> None:
        self._image, self._draw = image, ImageDraw.Draw(image)

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

    def picture(self, x: float, y: float, size: float, picture: Picture) -> None:
        self._image.paste(_scaled(picture, int(size)), (int(x), int(y)))


def _scaled(picture: Picture, size: int) -> Image.Image:
    """An image scaled to a square; its pixels stay visible where it is small."""
    assert picture.image is not None
    small = max(picture.image.shape[:2]) < size
    return Image.fromarray(picture.image).resize((size, size), Image.Resampling.NEAREST if small else Image.Resampling.LANCZOS)


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

    def picture(self, x: float, y: float, size: float, picture: Picture) -> None:
        store = BytesIO()
        _scaled(picture, int(size)).save(store, "PNG", optimize=True)
        source = f"data:image/png;base64,{b64encode(store.getvalue()).decode('ascii')}"
        box = f'x="{x:.1f}" y="{y:.1f}" width="{size:.1f}" height="{size:.1f}"'
        self.elements.append(f'<image {box} href="{source}"><title>{escape(picture.title)}</title></image>')

    def line(self, x: float, top: float, bottom: float, colour: str, dashed: bool = False) -> None:
        dash = ' stroke-dasharray="4 4"' if dashed else ""
        ends = f'x1="{x:.1f}" x2="{x:.1f}" y1="{top:.1f}" y2="{bottom:.1f}"'
        self.elements.append(f'<line {ends} stroke="{colour}"{dash}/>')


def chart_picture(
    chart: Chart, width: int = 960, height: int | None = None, choice: Choice | None = None, pictures: Sequence[Picture] = ()
) -> NDArray[np.uint8]:
    """Draw a chart as an RGB image, (height, width, 3) uint8, above the choice before the agent and what tools made.

    A given height is filled with white, or the picture is scaled down to it, so that all frames of a video have one size.
    """
    layout = _Layout(chart, max(320, width), choice, pictures)
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


def chart_drawing(
    chart: Chart, name: str, width: int = 960, choice: Choice | None = None, pictures: Sequence[Picture] = ()
) -> str:
    """Draw a chart as SVG with the given accessible name, as `chart_picture` does; bars have tooltips."""
    layout, pen = _Layout(chart, max(320, width), choice, pictures), _PagePen()
    _draw(pen, layout)
    drawing = "\n".join(pen.elements)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {layout.width} {layout.height}" '
        f'width="{layout.width}" height="{layout.height}" font-family="system-ui, sans-serif">\n'
        f"<title>{escape(name)}</title>\n"
        f'<rect width="100%" height="100%" fill="{PAPER}"/>\n'
        f"{drawing}\n</svg>\n"
    )
