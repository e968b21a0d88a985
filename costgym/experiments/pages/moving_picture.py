"""Draw what happens over simulated time as a moving picture: an SVG that moves by itself, or the frames of a GIF.

A scene is a list of shapes, each with the times at which it is seen and, for a bar, the share of its width at each time. Both
forms draw the same list. The SVG needs no script, follows the reader's light or dark mode, and shows the end where motion is
not wanted; the GIF is made by Pillow alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from io import BytesIO
from itertools import pairwise
from math import inf

from PIL import Image, ImageDraw

from costgym.envs.rendering.draw import font, text_width

LIGHT = {
    "paper": "#FFFFFF", "ink": "#1A1B1E", "quiet": "#5A5D63", "rule": "#DFDDD7", "budget": "#5446B8", "good": "#0A6B4F",
    "bad": "#B3243B", "ok": "#009E73", "looks ok, is not": "#E69F00", "failed": "#D55E00", "agent's error": "#CC79A7",
    "refused": "#7B3294", "cut off": "#8C8C8C", "running": "#56B4E9",
}  # fmt: skip
DARK = {
    **LIGHT, "paper": "#131518", "ink": "#EBE9E4", "quiet": "#A6A9AF", "rule": "#31353B", "budget": "#A99DF5",
    "good": "#3FCB9F", "bad": "#FF8290", "refused": "#B388D9",
}  # fmt: skip
"""Colours by their role: of the page, and of what became of a call, as in `rendering.chart.COLOURS`."""
THEMES = {"light": LIGHT, "dark": DARK}
PLAY_S, HOLD_S = 10.0, 4.0  # seconds that the simulated time takes, and that the end stays
FRAMES_PER_SECOND = 8


@dataclass(frozen=True, slots=True)
class Shape:
    """A text or a bar; times are simulated seconds."""

    x: float
    y: float  # of a text its baseline, of a bar its top
    colour: str  # key of a theme
    text: str = ""  # "" for a bar
    size: int = 12  # of the text, or height of the bar, pixels
    width: float = 0.0  # of the bar, pixels
    right: bool = False  # the text ends at x
    begin_s: float = 0.0
    end_s: float = inf
    shares: tuple[tuple[float, float], ...] = ()  # (time, share of the width), linear in between; () for all of it

    def share(self, now_s: float) -> float:
        """The share of the bar's width at a time."""
        if not self.shares:
            return 1.0
        before = [point for point in self.shares if point[0] <= now_s]
        after = [point for point in self.shares if point[0] > now_s]
        if not before or not after:
            return (before or after)[-1 if before else 0][1]
        (begin, low), (end, high) = before[-1], after[0]
        return low + (high - low) * (now_s - begin) / (end - begin)


@dataclass(frozen=True, slots=True)
class Scene:
    """A moving picture, before it has a form."""

    title: str  # its accessible name
    width: int
    height: int
    span_s: float  # simulated seconds until nothing more happens, above 0
    shapes: Sequence[Shape]


def gif(scene: Scene, theme: str = "light") -> bytes:
    """Draw a scene as an animated GIF in the colours of a theme."""
    count = int(PLAY_S * FRAMES_PER_SECOND)
    frames = [frame(scene, scene.span_s * index / count, theme) for index in range(count + 1)]
    palette = frames[-1].quantize(64)  # one for all frames, so that nothing flickers; the end has all colours
    drawn = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in frames]
    durations = [round(1000 / FRAMES_PER_SECOND)] * count + [round(1000 * HOLD_S)]
    store = BytesIO()
    drawn[0].save(store, "GIF", save_all=True, append_images=drawn[1:], duration=durations, loop=0, optimize=True)
    return store.getvalue()


def frame(scene: Scene, now_s: float, theme: str = "light") -> Image.Image:
    """Draw a scene at one time."""
    colours = THEMES[theme]
    image = Image.new("RGB", (scene.width, scene.height), colours["paper"])
    pen = ImageDraw.Draw(image)
    for shape in scene.shapes:
        if not shape.begin_s <= now_s < shape.end_s:
            continue
        if shape.text:
            pen.text((shape.x, shape.y), shape.text, colours[shape.colour], font(shape.size), "rs" if shape.right else "ls")
        elif (width := shape.width * shape.share(now_s)) >= 0.5:
            pen.rectangle((shape.x, shape.y, shape.x + max(1.0, width) - 1, shape.y + shape.size - 1), colours[shape.colour])
    return image


def svg(scene: Scene) -> str:
    """Draw a scene as an SVG document that plays in a loop."""
    rules: dict[str, str] = {}  # the name of each animation, by its steps
    elements = [_element(scene, shape, rules) for shape in scene.shapes]
    whole_s = PLAY_S + HOLD_S
    keyframes = "".join(f"@keyframes {name}{{{steps}}}.{name}{{animation-name:{name}}}\n" for steps, name in rules.items())
    style = (
        f"{_colours(LIGHT)}@media (prefers-color-scheme: dark){{{_colours(DARK)}}}\n"
        f".m{{animation:{whole_s:g}s linear infinite}}\n{keyframes}"
        "@media (prefers-reduced-motion: reduce){.m{animation:none}}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {scene.width} {scene.height}" '
        f'width="{scene.width}" height="{scene.height}" font-family="system-ui, sans-serif">\n'
        f"<title>{escape(scene.title)}</title>\n<style>{style}</style>\n"
        f'<rect width="100%" height="100%" class="{_class("paper")}"/>\n' + "\n".join(elements) + "\n</svg>\n"
    )


def _colours(theme: dict[str, str]) -> str:
    return "".join(f".{_class(role)}{{fill:{colour}}}" for role, colour in theme.items())


def _class(role: str) -> str:
    return f"c{list(LIGHT).index(role)}"


def _element(scene: Scene, shape: Shape, rules: dict[str, str]) -> str:
    """Write a shape; as it is at the end, unless an animation says otherwise."""
    classes = [_class(shape.colour)]
    hidden = ""
    steps = "".join(_seen(scene, shape)) or "".join(_grown(scene, shape))
    if steps:
        classes += ["m", rules.setdefault(steps, f"k{len(rules)}")]
        hidden = ' opacity="0"' if shape.end_s < inf else ""
    about = f'x="{shape.x:.1f}" y="{shape.y:.1f}" class="{" ".join(classes)}"{hidden}'
    if shape.text:
        anchor = ' text-anchor="end"' if shape.right else ""
        # whatever font the reader has: as wide as it was measured
        length = f'textLength="{text_width(shape.text, shape.size):.1f}" lengthAdjust="spacingAndGlyphs"'
        return f'<text {about} font-size="{shape.size}"{anchor} {length}>{escape(shape.text)}</text>'
    still = f' transform="{_scaled(shape, shape.share(scene.span_s), "")}"' if shape.shares else ""
    return f'<rect {about} width="{shape.width:.1f}" height="{shape.size}"{still}/>'


def _scaled(shape: Shape, share: float, unit: str) -> str:
    """The transformation that leaves a share of a bar's width; CSS wants a unit, an attribute none."""
    return f"translate({shape.x:.1f}{unit},0) scale({share:.4f},1) translate({-shape.x:.1f}{unit},0)"


def _percent(scene: Scene, at_s: float) -> float:
    return 100 * PLAY_S / (PLAY_S + HOLD_S) * min(1.0, max(0.0, at_s / scene.span_s))


def _seen(scene: Scene, shape: Shape) -> Iterator[str]:
    """Keyframes of a shape that comes or goes; nothing for one that is always there, or that grows."""
    if shape.shares or (shape.begin_s <= 0 and shape.end_s == inf):
        return
    begin, end = _percent(scene, shape.begin_s), _percent(scene, shape.end_s)
    if begin > 0:
        yield f"0%,{begin:.2f}%{{opacity:0}}"
    yield f"{begin + 0.01 if begin > 0 else 0:.2f}%"
    if shape.end_s < inf:
        yield f",{max(begin + 0.02, end - 0.01):.2f}%{{opacity:1}}{max(begin + 0.03, end):.2f}%,100%{{opacity:0}}"
    else:
        yield ",100%{opacity:1}"


def _grown(scene: Scene, shape: Shape) -> Iterator[str]:
    """Keyframes of a bar that changes its width; where it jumps, the share before stands a moment earlier."""
    points = [(_percent(scene, at_s), share) for at_s, share in shape.shares]
    if points:
        jumps = [at == later for (at, _), (later, _) in pairwise(points)] + [False]
        points = [(max(0.0, at - 0.02) if jump else at, share) for (at, share), jump in zip(points, jumps, strict=True)]
        for percent, share in [(0.0, points[0][1]), *points, (100.0, points[-1][1])]:
            yield f"{percent:.2f}%{{transform:{_scaled(shape, share, 'px')}}}"
