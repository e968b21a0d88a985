"""Paint scenes: landscapes, patterned main objects and small things, anti-aliased by soft masks."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Plane = NDArray[np.float64]  # (size, size)
Colour = tuple[float, float, float]
Box = tuple[float, float, float, float]


class Canvas:
    """An RGB canvas of floats in [0, 1] with the generator that jitters what is painted on it."""

    def __init__(self, size: int, rng: np.random.Generator) -> None:
        self.size, self.rng = size, rng
        self.pixels = np.zeros((size, size, 3))
        axis = np.arange(size) + 0.5
        self.x, self.y = np.broadcast_to(axis, (size, size)), np.broadcast_to(axis[:, None], (size, size))

    def paint(self, mask: Plane, colour: Colour | NDArray[np.float64]) -> None:
        """Lay a colour, (3,) or (size, size, 3), over the canvas where `mask` is 1."""
        self.pixels += mask[..., None] * (np.asarray(colour) - self.pixels)

    def jitter(self, colour: Colour, amount: float = 0.04) -> Colour:
        r, g, b = (c + float(d) for c, d in zip(colour, self.rng.uniform(-amount, amount, 3), strict=True))
        return r, g, b

    def image(self) -> NDArray[np.uint8]:
        return np.rint(np.clip(self.pixels, 0, 1) * 255).astype(np.uint8)


def soft(distance_px: Plane) -> Plane:
    """1 inside, 0 outside, a ramp of one pixel between; the distance is negative inside."""
    return np.clip(0.5 - distance_px, 0.0, 1.0)


def _ellipse(u: Plane, v: Plane, a: float, b: float) -> Plane:
    return (np.hypot(u / a, v / b) - 1) * min(a, b)


# -- landscapes -------------------------------------------------------------------------------------------------------


def landscape(canvas: Canvas, landscape_kind: str, weather: str) -> None:
    """Sky in sun or rain over the ground of a place; each ground has its own texture, from which its colour follows."""
    x, y, rng = canvas.x, canvas.y, canvas.rng
    horizon = float(rng.uniform(22, 32))
    height = np.clip(y / horizon, 0, 1)[..., None]
    if weather == "sunny":
        top, low = canvas.jitter((0.38, 0.62, 0.95)), canvas.jitter((0.76, 0.88, 0.98))
    else:
        top, low = canvas.jitter((0.36, 0.38, 0.46), 0.03), canvas.jitter((0.58, 0.58, 0.62), 0.03)
    canvas.pixels[:] = np.asarray(top) * (1 - height) + np.asarray(low) * height
    if weather == "rain":
        _rain(canvas, horizon)
    ground = soft(
        horizon + 1.2 * np.sin(x / 9 + float(rng.uniform(0, 6))) * (landscape_kind in ("meadow", "snow", "desert")) - y
    )
    if landscape_kind == "beach":
        canvas.paint(ground, _sea(canvas))
        ground = soft(horizon + 7 + 1.5 * np.sin(x / 7 + float(rng.uniform(0, 6))) - y)
    canvas.paint(ground, _GROUNDS[landscape_kind](canvas))


def _rain(canvas: Canvas, horizon: float) -> None:
    n = 16
    x0, y0 = canvas.rng.uniform(0, canvas.size, n)[:, None, None], canvas.rng.uniform(-2, horizon - 2, n)[:, None, None]
    along = (canvas.y - y0) * 0.94 - (canvas.x - x0) * 0.34
    across = (canvas.x - x0) * 0.94 + (canvas.y - y0) * 0.34
    strokes = soft(np.maximum(np.abs(along) - 4.0, np.abs(across) - 0.65)).max(0)
    canvas.paint(strokes * 0.75, (0.86, 0.88, 0.92))


def _shade(colour: Colour, light: Plane) -> NDArray[np.float64]:
    return np.asarray(colour) * (1 + light[..., None])


def _meadow(canvas: Canvas) -> NDArray[np.float64]:
    noise = canvas.rng.uniform(-1, 1, (canvas.size + 6, canvas.size + 2))
    columns = (noise[:, :-2] + 2 * noise[:, 1:-1] + noise[:, 2:]) / 4
    blades = np.add.reduce([columns[i : i + canvas.size] for i in range(6)]) / 6
    return _shade(canvas.jitter((0.33, 0.60, 0.22)), 0.8 * blades)


def _sea(canvas: Canvas) -> NDArray[np.float64]:
    phase = canvas.rng.uniform(0, 6, 2)
    waves = np.sin(2 * math.pi * canvas.y / 5.5 + 1.6 * np.sin(canvas.x / 6 + phase[0]) + phase[1])
    return _shade(canvas.jitter((0.13, 0.40, 0.66), 0.03), 0.16 * waves)


def _sand(canvas: Canvas) -> NDArray[np.float64]:
    seeds = canvas.rng.uniform(0, 1, (canvas.size + 1, canvas.size + 1)) > 0.97
    grains = (1.0 * seeds[1:, 1:] + seeds[:-1, 1:] + seeds[1:, :-1] + seeds[:-1, :-1]).clip(0, 1)
    return _shade(canvas.jitter((0.88, 0.77, 0.52)), -0.25 * grains)


def _snow(canvas: Canvas) -> NDArray[np.float64]:
    phase = canvas.rng.uniform(0, 6, 2)
    mounds = np.sin(canvas.x / 8 + phase[0]) * np.sin(canvas.y / 5 + canvas.x / 17 + phase[1])
    return _shade(canvas.jitter((0.90, 0.93, 0.97), 0.02), 0.06 * mounds)


def _desert(canvas: Canvas) -> NDArray[np.float64]:
    phase = canvas.rng.uniform(0, 6)
    dunes = np.sin(2 * math.pi * (canvas.y + 0.45 * canvas.x) / 13 + np.sin(canvas.x / 8 + phase))
    return _shade(canvas.jitter((0.82, 0.52, 0.28)), 0.18 * np.clip(dunes * 2, -1, 1))


_GROUNDS: dict[str, Callable[[Canvas], NDArray[np.float64]]] = {
    "meadow": _meadow, "sea": _sea, "beach": _sand, "snow": _snow, "desert": _desert,
}  # fmt: skip

# -- the main object --------------------------------------------------------------------------------------------------

_BASE: dict[str, Colour] = {
    # two kinds share a colour, so that colour alone does not tell the kind
    "fish": (0.84, 0.36, 0.16),
    "kite": (0.84, 0.36, 0.16),
    "butterfly": (0.56, 0.30, 0.70),
    "umbrella": (0.56, 0.30, 0.70),
    "ball": (0.62, 0.58, 0.14),
    "balloon": (0.62, 0.58, 0.14),
}
CONTRAST = 0.22  # of a pattern, between its two tones, in [0, 1]


def main_object(canvas: Canvas, kind: str, texture: str, x: float, y: float, radius: float) -> Box:
    """Paint the patterned object that gives the scene its label; its box, px."""
    rng = canvas.rng
    angle = float(rng.uniform(-0.3, 0.3))
    c, s = math.cos(angle), math.sin(angle)
    flip = -1.0 if rng.random() < 0.5 else 1.0
    dx, dy = canvas.x - x, canvas.y - y
    u, v = (c * dx + s * dy) * flip, c * dy - s * dx
    body, lines = _SILHOUETTES[kind](u, v, radius)
    canvas.paint(lines, (0.16, 0.14, 0.16))
    if texture == "plain":
        # nothing is quite plain: a faint pattern that is no pattern, so that a pattern that has lost its contrast looks plain
        worn = ("striped", "dotted", "checked")[int(rng.integers(3))]
        pattern = _pattern(canvas, worn, u, v) * float(rng.uniform(0.0, 0.3))
    else:
        pattern = _pattern(canvas, texture, u, v) * float(rng.uniform(0.9, 1.1))
    tone = CONTRAST * (pattern - pattern.mean())
    canvas.paint(body, np.asarray(canvas.jitter(_BASE[kind])) + tone[..., None])
    seen = np.argwhere(body > 0.5)
    (top, left), (bottom, right) = seen.min(0), seen.max(0) + 1
    return float(left), float(top), float(right), float(bottom)


def _pattern(canvas: Canvas, texture: str, u: Plane, v: Plane) -> Plane:
    period, phase = float(canvas.rng.uniform(5.6, 6.4)), canvas.rng.uniform(0, 2 * math.pi, 2)
    slant = canvas.rng.random() < 0.5
    k = 2 * math.pi / period
    if texture == "striped":
        wave = 1.6 * np.sin(k * ((u if slant else -u) + v) * math.sqrt(0.5) + phase[0])
    elif texture == "checked":
        wave = 2.2 * np.sin(0.9 * k * u + phase[0]) * np.sin(0.9 * k * v + phase[1])
    else:
        wave = 1.3 * (np.cos(k * u + phase[0]) + np.cos(k * v + phase[1]) - 0.75)
    pattern: Plane = np.clip(0.5 + wave, 0, 1)
    return pattern


def _fish(u: Plane, v: Plane, r: float) -> tuple[Plane, Plane]:
    body = _ellipse(u - 0.12 * r, v, 0.95 * r, 0.62 * r)
    tail = np.maximum(np.abs(v) + (u + 0.55 * r) * 0.95, -u - 1.2 * r)
    fins = np.maximum(np.abs(u) - 0.25 * r, np.abs(np.abs(v) - 0.66 * r) - 1.0)
    return soft(np.minimum(body, tail)), soft(fins)


def _butterfly(u: Plane, v: Plane, r: float) -> tuple[Plane, Plane]:
    w = np.abs(u)
    wings = np.minimum(np.hypot(w - 0.55 * r, v + 0.36 * r) - 0.52 * r, np.hypot(w - 0.45 * r, v - 0.48 * r) - 0.42 * r)
    feelers = np.maximum(np.abs(w - 0.25 * r + 0.35 * (v + 1.2 * r)) - 0.5, np.abs(v + 0.8 * r) - 0.35 * r)
    return soft(wings), np.maximum(soft(np.maximum(w - 1.0, np.abs(v) - 0.8 * r)), soft(feelers))


def _kite(u: Plane, v: Plane, r: float) -> tuple[Plane, Plane]:
    diamond = (np.abs(u) * 1.15 + np.where(v < 0, -v * 1.3, v * 0.85) - 0.95 * r) * 0.75
    string = np.maximum(np.abs(u - 2.0 * np.sin(v / 3)) - 0.6, np.abs(v - 1.35 * r) - 0.4 * r)
    return soft(diamond), soft(string)


def _ball(u: Plane, v: Plane, r: float) -> tuple[Plane, Plane]:
    d = np.hypot(u, v) - 0.88 * r
    return soft(d), soft(d - 0.8)


def _balloon(u: Plane, v: Plane, r: float) -> tuple[Plane, Plane]:
    d = np.hypot(u, v) - 0.88 * r
    string = np.maximum(np.abs(u - 1.2 * np.sin(v / 2.5)) - 0.55, np.abs(v - 1.2 * r) - 0.35 * r)
    return soft(d), soft(np.minimum(d - 0.8, string))


def _umbrella(u: Plane, v: Plane, r: float) -> tuple[Plane, Plane]:
    dome = np.maximum(_ellipse(u, v - 0.15 * r, 1.05 * r, 0.95 * r), v - 0.1 * r - 0.12 * r * np.abs(np.sin(u * 3 / r)))
    handle = np.maximum(np.abs(u) - 0.7, np.abs(v - 0.6 * r) - 0.5 * r)
    return soft(dome), soft(handle)


_SILHOUETTES: dict[str, Callable[[Plane, Plane, float], tuple[Plane, Plane]]] = {
    "fish": _fish, "butterfly": _butterfly, "kite": _kite, "umbrella": _umbrella, "ball": _ball, "balloon": _balloon,
}  # fmt: skip

# -- small things -----------------------------------------------------------------------------------------------------


def thing(canvas: Canvas, name: str, x: float, y: float, radius: float) -> Box:
    """Paint one small thing around (x, y); its box, px."""
    _THINGS[name](canvas, canvas.x - x, canvas.y - y, radius)
    return x - radius, y - radius, x + radius, y + radius


def _boat(c: Canvas, u: Plane, v: Plane, r: float) -> None:
    hull = np.maximum(np.abs(v - 0.6 * r) - 0.3 * r, np.abs(u) + (v - 0.6 * r) * 0.9 - 0.75 * r)
    c.paint(soft(hull), c.jitter((0.45, 0.26, 0.14)))
    c.paint(soft(np.maximum(np.abs(u) - 0.5, np.abs(v + 0.3 * r) - 0.65 * r)), (0.2, 0.15, 0.12))
    c.paint(soft(np.maximum(np.maximum(-u + 0.8, u * 1.3 - v - 0.85 * r), v - 0.15 * r)), (0.95, 0.94, 0.9))


def _house(c: Canvas, u: Plane, v: Plane, r: float) -> None:
    c.paint(soft(np.maximum(np.abs(u) - 0.65 * r, np.abs(v - 0.45 * r) - 0.5 * r)), c.jitter((0.90, 0.84, 0.70)))
    c.paint(soft(np.maximum((np.abs(u) - v - 0.9 * r) * 0.75, v + 0.05 * r)), c.jitter((0.66, 0.22, 0.14)))
    c.paint(soft(np.maximum(np.abs(np.abs(u) - 0.3 * r) - 0.9, np.abs(v - 0.4 * r) - 1.0)), (0.2, 0.2, 0.26))


def _tree(c: Canvas, u: Plane, v: Plane, r: float) -> None:
    c.paint(soft(np.maximum(np.abs(u) - 0.9, np.abs(v - 0.6 * r) - 0.4 * r)), (0.36, 0.22, 0.12))
    crown = np.minimum(np.hypot(u, v + 0.35 * r) - 0.62 * r, np.hypot(np.abs(u) - 0.35 * r, v) - 0.4 * r)
    leaves = 0.5 + 0.5 * np.sin(u * 1.9) * np.sin(v * 1.9)
    c.paint(soft(crown), _shade(c.jitter((0.13, 0.38, 0.13)), 0.5 * (leaves - 0.5)))


def _cloud(c: Canvas, u: Plane, v: Plane, r: float) -> None:
    puffs = np.minimum(np.hypot(u, v + 0.1 * r) - 0.5 * r, np.hypot(np.abs(u) - 0.55 * r, v - 0.1 * r) - 0.38 * r)
    c.paint(soft(np.maximum(puffs, v - 0.35 * r)), (0.97, 0.97, 0.98))


def _bird(c: Canvas, u: Plane, v: Plane, r: float) -> None:
    w = np.abs(u)
    wings = np.maximum(np.abs(v + 0.35 * r - 0.035 * (w - 0.45 * r) ** 2 * 3) - 0.65, w - 0.9 * r)
    c.paint(soft(wings), (0.10, 0.10, 0.13))
    c.paint(soft(np.hypot(u, v + 0.05 * r) - 1.0), (0.10, 0.10, 0.13))


def _flower(c: Canvas, u: Plane, v: Plane, r: float) -> None:
    c.paint(soft(np.maximum(np.abs(u) - 0.6, np.abs(v - 0.45 * r) - 0.55 * r)), (0.12, 0.40, 0.12))
    angle, d = np.arctan2(v + 0.4 * r, u), np.hypot(u, v + 0.4 * r)
    c.paint(soft(d - r * (0.36 + 0.2 * np.cos(5 * angle))), c.jitter((0.93, 0.42, 0.66)))
    c.paint(soft(d - 1.1), (0.96, 0.86, 0.2))


def _fence(c: Canvas, u: Plane, v: Plane, r: float) -> None:
    inside = np.abs(u) - r
    posts = np.abs((u + r) % (0.5 * r) - 0.25 * r) - 0.65
    rails = np.abs(np.abs(v - 0.1 * r) - 0.35 * r) - 0.5
    c.paint(soft(np.maximum(np.maximum(posts, np.abs(v) - 0.7 * r), inside)), (0.55, 0.38, 0.22))
    c.paint(soft(np.maximum(rails, inside)), (0.55, 0.38, 0.22))


def _lamp(c: Canvas, u: Plane, v: Plane, r: float) -> None:
    c.paint(soft(np.maximum(np.abs(u) - 0.6, np.abs(v - 0.3 * r) - 0.7 * r)), (0.12, 0.12, 0.14))
    c.paint(soft(np.hypot(u, v + 0.55 * r) - 0.38 * r), (0.12, 0.12, 0.14))
    c.paint(soft(np.hypot(u, v + 0.55 * r) - 0.25 * r), (0.99, 0.90, 0.45))


_THINGS: dict[str, Callable[[Canvas, Plane, Plane, float], None]] = {
    "boat": _boat, "house": _house, "tree": _tree, "cloud": _cloud, "bird": _bird, "flower": _flower,
    "fence": _fence, "lamp": _lamp,
}  # fmt: skip
