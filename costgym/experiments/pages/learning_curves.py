"""Draw the learning curves of training runs, as a page of their own and as figures for other pages.

`write_curves` draws a run's `curve.jsonl` into `RUN/curves.html`, which works from disk, without a script or the network;
`write_events` writes the same for TensorBoard, and `curve_figures` gives the figures alone.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from markupsafe import Markup

from costgym.agents.registry import run_folder
from costgym.agents.settings import CONFIG
from costgym.experiments.pages.charts import curve as curve_chart
from costgym.experiments.pages.html import asset, part, render
from costgym.experiments.train.run import CURVE, Line, read_curve
from costgym.simulators.errors import DataError, MissingExtra, require
from costgym.simulators.files import write_atomically

PAGE = "curves.html"
MAX_POINTS = 400
MAX_FIGURES = 3  # figures of one agent on a page of results; its own page has all
SERIES = {
    "return": "Return",
    "reward": "Reward",
    "success": "Success rate",
    "train_match": "Match rate, train tasks",
    "train_pass": "Success rate, train tasks",
    "train_quality": "Quality of plan, train tasks",
    "train_valid": "Valid plans, train tasks",
    "retrieval_accuracy": "Retrieval, share of right answers",
    "in_order": "Pairs in order",
    "cost": "Cost of an episode",
    "cost_seconds": "Seconds of an episode",
    "cost_tokens": "Tokens of an episode",
    "cost_calls": "Calls of an episode",
    "cost_price": "Price of an episode",
    "price": "Price of an episode",
    "multiplier": "Multiplier",
    "loss": "Loss",
    "sft": "Supervised loss",
    "ranking": "Ranking loss",
    "rehearsal": "Rehearsal loss",
    "value_loss": "Value loss",
    "entropy": "Entropy",
    "decisions": "Decisions of an episode",
    "reward_std": "Spread of the reward in a group",
    "groups_alike": "Groups without spread",
    "tool_calls": "Calls of an episode",
    "tool_failures": "Failed calls",
    "finished": "Episodes that finished",
    "learning_rate": "Learning rate",
}
"""Titles of the figures that trainers write, the telling ones first; others are shown behind them."""
_ENDINGS = ("", "_price", "_seconds", "_tokens", "_calls")
_HIDDEN = ("step", "seconds", "episodes", "step_time_s", *(f"limit{ending}" for ending in _ENDINGS))
_FACTS = ("trainer", "model", "seed", "stage", "scenario", "tasks", "version")


class Series(NamedTuple):
    """A figure over the training steps."""

    name: str
    steps: list[float]
    values: list[float]
    limit: float | None = None  # what it is held under; None for nothing


def series(lines: Sequence[Line]) -> list[Series]:
    """List the figures of a curve, the telling ones first. A multiplier that is always 0 is left out."""
    names = {name for line in lines for name in line} - set(_HIDDEN)
    series = []
    for name in [*(name for name in SERIES if name in names), *sorted(names - SERIES.keys())]:
        points = [(line["step"], line[name]) for line in lines if name in line]
        if name == "multiplier" and not any(value for _, value in points):
            continue
        limit = lines[-1].get(name.replace("cost", "limit", 1)) if name.startswith("cost") else None
        series.append(Series(name, [step for step, _ in points], [value for _, value in points], limit))
    return series


def curve_figures(run: str | Path, most: int | None = None) -> Markup:
    """Draw a run's learning curves, at most so many, as HTML: a `<div class="curves">` with a `<figure>` each, for the
    rules of `curves.css`. Raises DataError if there is no curve, or it cannot be read."""
    wanted = series(read_curve(run))[:most]
    return part("curve-figures.html", figures=[_figure(curve) for curve in wanted]) if wanted else Markup("")


def has_curve(run: str | Path) -> bool:
    """Return whether there is something to draw."""
    return (Path(run) / CURVE).is_file()


def curves_of_agent(row: Mapping[str, Any]) -> Markup:
    """Draw how the agent of a leaderboard's row learnt, as `curve_figures` does; empty where it has no curve that can be read
    here, or the row was handed in: a submission's paths are those of another machine."""
    agent = str(row.get("agent"))
    if "submission" in row or ":" not in agent or agent.endswith(":"):
        return Markup("")
    try:
        run = run_folder(agent)
        return curve_figures(run, MAX_FIGURES) if has_curve(run) else Markup("")
    except (DataError, OSError, ValueError):
        return Markup("")  # results are shown whatever became of the training run


def curves_section(rows: Iterable[Mapping[str, Any]]) -> Markup:
    """Draw the curves of all trained agents of a leaderboard as a section of its page, with its style; empty without any."""
    agents = {str(row.get("agent")): row for row in rows}
    learnt = [(agent, figures) for agent, row in agents.items() if (figures := curves_of_agent(row))]
    return (
        part("curves-section.html", learnt=learnt, css=Markup(asset("curves.css")), note=CURVES_NOTE) if learnt else Markup("")
    )


CURVES_NOTE = (
    "From the training run that the agent’s name points to. Faint: what was written at each step; strong: a running mean. "
    "The run’s own page, curves.html, has every figure."
)


def write_curves(run: str | Path) -> Path:
    """Draw a run's learning curves into `RUN/curves.html`, the same bytes every time; raises DataError without a curve."""
    folder = Path(run)
    parts = [(stage_folder, f"Stage 1: {stage_folder.name}") for stage_folder in _earlier(folder)]
    parts += [(folder, "Stage 2" if parts else "")] if has_curve(folder) or not parts else []
    last = max((line["step"] for stage_folder, _ in parts for line in read_curve(stage_folder)), default=0.0)
    page = folder / PAGE
    text = render(
        "curves.html",
        title=f"costgym training: {folder.name}",
        heading=folder.name,
        last=last,
        stages=[
            {"title": title, "facts": _facts(stage_folder), "figures": curve_figures(stage_folder)}
            for stage_folder, title in parts
        ],
        css=Markup(asset("curves.css")),
    )
    write_atomically(page, text)
    return page


def write_events(run: str | Path) -> Path | None:
    """Write the curve as a TensorBoard event file, unless the trainer has written some; None without TensorBoard."""
    folder = Path(run)
    mine = folder / "tensorboard"
    if any(folder.glob("events.out.tfevents.*")):
        return folder
    try:
        require("tensorboard", "train")
        writer_of = require("torch.utils.tensorboard", "train").SummaryWriter
    except MissingExtra:
        return None
    for old in mine.glob("events.out.tfevents.*"):
        old.unlink()
    with writer_of(str(mine)) as writer:
        for line in read_curve(folder):
            for name, value in line.items():
                if name != "step":
                    writer.add_scalar(name, value, int(line["step"]))
    return mine


def publish(run: str | Path) -> Path | None:
    """Write page and event files of a finished run, its earlier stages included; None where there is no curve."""
    folder = Path(run)
    there = [stage for stage in (*_earlier(folder), folder) if has_curve(stage)]
    for stage in there:
        write_events(stage)
    return write_curves(folder) if there else None


def _earlier(folder: Path) -> list[Path]:
    """List the earlier stages of a run: folders inside it that have a curve of their own."""
    return sorted(path.parent for path in folder.glob(f"[!.]*/{CURVE}"))


# -- drawing -----------------------------------------------------------------------------------------------------------------


def _figure(curve: Series) -> dict[str, Any]:
    title = SERIES.get(curve.name, curve.name.replace("_", " ").capitalize())
    if curve.limit is not None:
        title += f", limit {curve.limit:g}"
    steps, values = _thinned(curve.steps, curve.values)
    mean = _smooth(values)
    summary = f"{title} over steps: {_short(mean[0])} at first, {_short(mean[-1])} at the end"
    scale = _range(values, mean if curve.limit is None else [*mean, curve.limit])
    return {"title": title, "last": _short(mean[-1]), "chart": curve_chart(steps, values, mean, scale, summary, curve.limit)}


def _range(values: Sequence[float], whole: Sequence[float]) -> tuple[float, float]:
    """Return the scale: all of the mean, and the values but for the outermost fiftieth, which are drawn at its edge."""
    ordered = sorted(values)
    cut = len(ordered) // 50
    low = min(*whole, ordered[cut], ordered[cut])
    high = max(*whole, ordered[-1 - cut], ordered[-1 - cut])
    if 0.0 <= low < 0.35 * high:
        low = 0.0
    pad = (high - low or abs(high) or 1.0) * 0.05
    return (low - pad if low else 0.0), high + pad


def _thinned(steps: Sequence[float], values: Sequence[float]) -> tuple[list[float], list[float]]:
    """Reduce a curve to at most `MAX_POINTS` points, each the mean of its neighbours."""
    size = max(1, math.ceil(len(steps) / MAX_POINTS))
    groups = [slice(start, start + size) for start in range(0, len(steps), size)]
    return [steps[group][-1] for group in groups], [fmean(values[group]) for group in groups]


def _smooth(values: Sequence[float]) -> list[float]:
    """Return the running mean over a twentieth of all points to either side, as far as there are any."""
    reach = len(values) // 20
    return [fmean(values[max(0, at - reach) : at + reach + 1]) for at in range(len(values))]


def _facts(run: Path) -> list[tuple[str, Any]]:
    try:
        document: Any = json.loads((run / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return []
    if not isinstance(document, Mapping):
        return []
    settings = document.get("settings")
    facts = {**(settings if isinstance(settings, Mapping) else {}), **document}
    named = ((name, value.get("name") if isinstance(value, Mapping) else value) for name, value in facts.items())
    known = {name: value for name, value in named if isinstance(value, str | int | float) and value != ""}
    return [(name.capitalize(), known[name]) for name in _FACTS if name in known]


def _short(value: float) -> str:
    return f"{value:.3g}".replace("-", "−")
