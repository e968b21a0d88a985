"""Draw docs/throughput.png from benchmarks/results/throughput.json: steps per second by number of environments.

python benchmarks/plot_throughput.py
"""

import argparse
import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont
from PIL.PngImagePlugin import PngInfo

from costgym.experiments.play.plots import PNG_CODE, PNG_DATA

ROOT = Path(__file__).parents[1]
WIDTH, HEIGHT, SCALE = 900, 470, 2
LEFT, RIGHT, TOP, BOTTOM = 70, 268, 58, 54
INK, GREY, GRID = "#222222", "#666666", "#E4E4E4"
LINES = (
    ("CartPole-v1", "native", "CartPole-v1 (Gymnasium)", "#8C8C8C"),
    ("costgym/Marketplace-v0", "native", "Marketplace-v0", "#0072B2"),
    ("costgym/Marketplace-v0", "sync", "Marketplace-v0, SyncVectorEnv", "#D55E00"),
)
"""Environment, kind, name shown, colour (after Okabe and Ito)."""


def points(report: dict[str, Any], env: str, kind: str) -> list[tuple[int, float]]:
    rows = report["rows"]
    return sorted((row["envs"], row["steps_per_second"]) for row in rows if (row["env"], row["kind"]) == (env, kind))


def short(number: float) -> str:
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g} {letter}"
    return f"{number:.0f}"


def draw(report: dict[str, Any]) -> Image.Image:
    lines = [(label, colour, points(report, env, kind)) for env, kind, label, colour in LINES]
    lines = [line for line in lines if line[2]]
    most = max(envs for *_, line in lines for envs, _ in line)
    rates = [rate for *_, line in lines for _, rate in line]
    low, high = math.floor(math.log10(min(rates))), math.ceil(math.log10(max(rates)))
    image = Image.new("RGB", (WIDTH * SCALE, HEIGHT * SCALE), "#FFFFFF")
    pen = ImageDraw.Draw(image)

    def font(size: float) -> Any:
        return ImageFont.load_default(size * SCALE)

    def at(envs: float, rate: float) -> tuple[float, float]:
        across = math.log(envs) / math.log(most)
        up = (math.log10(rate) - low) / (high - low)
        x = LEFT + across * (WIDTH - LEFT - RIGHT)
        return x * SCALE, (HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)) * SCALE

    def write(x: float, y: float, text: str, size: float, colour: str, anchor: str) -> None:
        pen.text((x * SCALE, y * SCALE), text, font=font(size), fill=colour, anchor=anchor)

    write(LEFT - 46, 22, "Environment steps per second, by number of environments", 16, INK, "lm")
    machine = f"one core, {report['machine'].get('processor', report['machine']['system'])}, {report.get('date', '')}"
    write(LEFT - 46, 42, machine, 11.5, GREY, "lm")
    for power in range(low, high + 1):
        x, y = at(1, 10.0**power)
        pen.line([(x, y), (at(most, 1)[0], y)], fill=GRID, width=SCALE)
        write(x / SCALE - 8, y / SCALE, short(10.0**power), 12, GREY, "rm")
    for envs in sorted({envs for *_, line in lines for envs, _ in line}):
        x, y = at(envs, 10.0**low)
        write(x / SCALE, y / SCALE + 14, f"{envs:,}", 12, GREY, "mm")
    write(at(math.sqrt(most), 1)[0] / SCALE, HEIGHT - 16, "environments stepped at once", 12, GREY, "mm")
    labels = []
    for label, colour, line in lines:
        positions = [at(envs, rate) for envs, rate in line]
        pen.line(positions, fill=colour, width=round(2.5 * SCALE), joint="curve")
        for x, y in positions:
            size = 3.6 * SCALE
            pen.ellipse([x - size, y - size, x + size, y + size], fill=colour, outline="#FFFFFF", width=SCALE)
        labels.append([positions[-1][1] / SCALE, positions[-1][0] / SCALE, f"{label}  {short(line[-1][1])}", colour])
    labels.sort()
    for above, below in pairwise(labels):  # no two labels on top of each other
        if below[1] == above[1]:
            below[0] = max(below[0], above[0] + 17)
    for y, x, label, colour in labels:
        write(x + 11, y, label, 12.5, colour, "lm")
    return image


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, default=ROOT / "benchmarks" / "results" / "throughput.json")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "throughput.png")
    options = parser.parse_args()
    text = options.json.read_text(encoding="utf-8")
    image, about = draw(json.loads(text)), PngInfo()
    about.add_text(PNG_DATA, text)
    about.add_text(PNG_CODE, __doc__.splitlines()[-1])
    image.save(options.out, optimize=True, pnginfo=about)
    print(f"{options.out}: {image.width} x {image.height}")


if __name__ == "__main__":
    main()
