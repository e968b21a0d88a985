"""A plan's run as a Gantt chart, in text or as an image."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

WIDTH, ROW, LEFT, TOP = 640, 22, 190, 30
_COLUMNS = 48
_COLOURS = {"done": (76, 130, 190), "running": (240, 170, 70), "waiting": (200, 200, 200)}


class Bar(NamedTuple):
    """One tool: from when to when (seconds), what it reads, and whether it is done, running or waiting."""

    tool: str
    start_s: float
    end_s: float
    source: str
    state: str = "done"


def chart_text(heading: list[str], bars: list[Bar]) -> str:
    """Heading lines, then a line per tool with its span drawn to scale."""
    lines = list(heading)
    longest = max((bar.end_s for bar in bars), default=0.0)
    for bar in bars:
        first = round(_COLUMNS * bar.start_s / longest) if longest > 0 else 0
        last = max(first + 1, round(_COLUMNS * bar.end_s / longest) if longest > 0 else 0)
        drawn = (" " * first + ("#" if bar.state == "done" else "-") * (last - first))[:_COLUMNS].ljust(_COLUMNS)
        lines.append(f"{bar.tool:<22} |{drawn}| {bar.start_s:8.3f} .. {bar.end_s:8.3f} s  after {bar.source}")
    return "\n".join(lines)


def chart_image(heading: str, bars: list[Bar]) -> npt.NDArray[np.uint8]:
    """A heading and a bar per tool; fixed width, at least four rows high.  # (height, 640, 3)"""
    image = Image.new("RGB", (WIDTH, TOP + ROW * max(4, len(bars)) + 8), (255, 255, 255))
    draw = ImageDraw.Draw(image)
    draw.text((8, 8), heading, fill=(20, 20, 20))
    longest = max((bar.end_s for bar in bars), default=0.0) or 1.0
    scale = (WIDTH - LEFT - 12) / longest
    for row, bar in enumerate(bars):
        top = TOP + row * ROW
        draw.text((8, top + 4), bar.tool, fill=(20, 20, 20))
        left, right = LEFT + bar.start_s * scale, LEFT + bar.end_s * scale
        draw.rectangle((left, top + 3, max(right, left + 1.0), top + ROW - 3), fill=_COLOURS[bar.state])
    return np.asarray(image, dtype=np.uint8).copy()
