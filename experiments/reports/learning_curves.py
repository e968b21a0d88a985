"""Learning curves: what every trainer writes into `curve.jsonl`, as a page of its own and as figures for other pages.

Trainers append one JSON object a line: `step` (or `steps`) and figures beside it. `write_curves` draws them into
`RUN/curves.html`, which works from disk, has no script and asks nothing of the network; `write_events` writes the same for
TensorBoard. `curve_figures` gives the figures alone, for a leaderboard that shows how an agent learnt.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from markupsafe import Markup

from ...simulators.errors import DataError, MissingExtra, require
from ..files import iter_lines, write_atomically
from .charts import curve as curve_chart
from .html import asset, part, render

CURVE, PAGE = "curve.jsonl", "curves.html"
LARGEST_CURVE = 256 * 2**20
MOST_POINTS = 400
MOST_FIGURES = 3
"""Figures of one agent on a page of results; its own page has all."""
_PARTS = ("sft", "warm-start", "pretraining")
"""Folders inside a run that hold an earlier stage of it."""
_TITLES = {
    "return": "Return",
    "reward": "Reward",
    "success": "Pass rate",
    "train_match": "Match rate, train tasks",
    "train_pass": "Pass rate, train tasks",
    "train_quality": "Quality of plan, train tasks",
    "train_valid": "Valid plans, train tasks",
    "accuracy": "Accuracy",
    "in_order": "Pairs in order",
    "cost": "Cost of an episode",
    "price": "Price of an episode",
    "multiplier": "Multiplier",
    "loss": "Loss",
    "sft": "Supervised loss",
    "ranking": "Ranking loss",
    "value_loss": "Value loss",
    "entropy": "Entropy",
    "decisions": "Decisions of an episode",
    "reward_std": "Spread of the reward in a group",
    "groups_alike": "Groups without spread",
    "tool_calls": "Calls of an episode",
    "tool_failures": "Failed calls",
    "rate": "Learning rate",
}
_HIDDEN = ("step", "steps", "seconds", "episodes", "epoch", "step_time")
_FACTS = ("method", "algorithm", "model", "seed", "stage", "scenario", "tasks", "version")

Line = dict[str, float]


class Series(NamedTuple):
    """One figure over the steps.

    Attributes:
        name: as the curve has it.
        steps, values: its points, by step.
    """

    name: str
    steps: list[float]
    values: list[float]


def read_curve(run: str | Path) -> list[Line]:
    """The lines of a run's learning curve, whatever trained it: `step`, and the figures that are finite numbers.

    A last line that a kill cut short is left out.

    Raises:
        DataError: there is no curve, it is larger than any, or a line is none.
    """
    path = Path(run) / CURVE
    if not path.is_file():
        raise DataError(path, "there is no learning curve; expected the folder of a `costgym train` run")
    if path.stat().st_size > LARGEST_CURVE:
        raise DataError(path, f"is larger than {LARGEST_CURVE} bytes")
    lines = []
    for number, text in enumerate(iter_lines(path), 1):
        try:
            document: Any = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DataError(path, f"is no JSON ({error})", f"line {number}") from None
        if not isinstance(document, dict):
            raise DataError(path, f"expected an object, got {type(document).__name__}", f"line {number}")
        step = document.get("step", document.get("steps"))
        if not _finite(step):
            raise DataError(path, f"expected a step, got {step!r}", f"line {number}")
        figures = {str(name): float(value) for name, value in document.items() if name not in _HIDDEN and _finite(value)}
        lines.append({"step": float(step), **figures})
    return lines


def series(lines: Sequence[Line]) -> list[Series]:
    """The figures of a curve, the telling ones first. Those that say what another one says are left out."""
    names = list(dict.fromkeys(name for line in lines for name in line if name != "step"))
    known = [name for name in _TITLES if name in names]
    found = []
    for name in [*known, *sorted(set(names) - set(known))]:
        points = [(line["step"], line[name]) for line in lines if name in line]
        if name == "multiplier" and not any(value for _, value in points):
            continue
        found.append(Series(name, [step for step, _ in points], [value for _, value in points]))
    return found


def curve_figures(run: str | Path, only: Sequence[str] | None = None) -> Markup:
    """A run's learning curves as HTML: a `<div class="curves">` with a `<figure>` each.

    It needs the rules of `curves.css`, and the colours that the leaderboard's page has.

    Args:
        run: the folder.
        only: names of the figures that are wanted; None for all.

    Returns:
        Empty where none of them is there.

    Raises:
        DataError: there is no curve, or it cannot be read.
    """
    wanted = [each for each in series(read_curve(run)) if only is None or each.name in only]
    return part("curve-figures.html", figures=[_figure(each) for each in wanted]) if wanted else Markup("")


def has_curve(run: str | Path) -> bool:
    """There is something to draw."""
    return (Path(run) / CURVE).is_file()


def agents_run(agent: str) -> Path | None:
    """The run folder behind an agent's name (``sb3:runs/x``), if it is there and has a learning curve."""
    _, colon, folder = agent.partition(":")
    return Path(folder) if colon and folder and has_curve(folder) else None


def curves_of_agent(row: Mapping[str, Any]) -> Markup:
    """How the agent of a leaderboard's row learnt: the telling figures of its training run, as `curve_figures` draws them.

    Returns:
        Empty where the agent is not named by a run, the run is not there or has no curve that can be read, or the row was
        handed in: a submission's paths are those of another machine.
    """
    if "submission" in row:
        return Markup("")
    try:
        run = agents_run(str(row.get("agent")))
        return Markup("") if run is None else curve_figures(run, [each.name for each in series(read_curve(run))[:MOST_FIGURES]])
    except (DataError, OSError, ValueError):
        return Markup("")  # results are shown whatever became of the training run


def curves_section(rows: Iterable[Mapping[str, Any]]) -> Markup:
    """The curves of all trained agents of a leaderboard as a section of its page, the style included; empty without any."""
    agents = {row.get("agent"): row for row in rows}
    learnt = [(str(agent), figures) for agent, row in agents.items() if (figures := curves_of_agent(row))]
    return (
        part("curves-section.html", learnt=learnt, css=Markup(asset("curves.css")), note=CURVES_NOTE) if learnt else Markup("")
    )


CURVES_NOTE = (
    "From the training run that the agent’s name points to. Faint: what was written at each step; strong: a running mean. "
    "The run’s own page, curves.html, has every figure."
)


def write_curves(run: str | Path) -> Path:
    """Draw a run's learning curves into `RUN/curves.html`; the same curve gives the same bytes.

    Raises:
        DataError: there is no curve, or it cannot be read.
    """
    folder = Path(run)
    parts = [(folder / name, f"Stage 1: {name}") for name in _PARTS if has_curve(folder / name)]
    parts += [(folder, "Stage 2" if parts else "")] if has_curve(folder) or not parts else []
    last = max((line["step"] for place, _ in parts for line in read_curve(place)), default=0.0)
    page = folder / PAGE
    text = render(
        "curves.html",
        title=f"costgym training: {folder.name}",
        heading=folder.name,
        last=last,
        stages=[{"title": title, "facts": _facts(place), "figures": curve_figures(place)} for place, title in parts],
        css=Markup(asset("curves.css")),
    )
    write_atomically(page, text)
    return page


def write_events(run: str | Path) -> Path | None:
    """The curve as a TensorBoard event file in the run's folder, written anew; None where tensorboard is not installed.

    A run that has event files of its trainer keeps those.
    """
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
    """Page and event files of a finished run, its earlier stages included; None where there is no curve."""
    folder = Path(run)
    there = [place for place in (*(folder / name for name in _PARTS), folder) if has_curve(place)]
    for place in there:
        write_events(place)
    return write_curves(folder) if there else None


# -- drawing -----------------------------------------------------------------------------------------------------------------


def _figure(each: Series) -> dict[str, Any]:
    title = _TITLES.get(each.name, each.name.replace("_", " ").capitalize())
    steps, values = _thinned(each.steps, each.values)
    mean = _smooth(values)
    said = f"{title} over steps: {_short(mean[0])} at first, {_short(mean[-1])} at the end"
    return {"title": title, "last": _short(mean[-1]), "chart": curve_chart(steps, values, mean, _range(values, mean), said)}


def _range(values: Sequence[float], mean: Sequence[float]) -> tuple[float, float]:
    """The scale: all of the mean, and the values but for the outermost fiftieth, which are drawn at its edge."""
    kept = sorted(values)
    cut = len(kept) // 50
    low = min(*mean, kept[cut], kept[cut])
    high = max(*mean, kept[-1 - cut], kept[-1 - cut])
    if 0.0 <= low < 0.35 * high:
        low = 0.0
    pad = (high - low or abs(high) or 1.0) * 0.05
    return (low - pad if low else 0.0), high + pad


def _thinned(steps: Sequence[float], values: Sequence[float]) -> tuple[list[float], list[float]]:
    """At most `MOST_POINTS` points, each the mean of its neighbours."""
    each = max(1, math.ceil(len(steps) / MOST_POINTS))
    starts = range(0, len(steps), each)
    return (
        [steps[min(start + each, len(steps)) - 1] for start in starts],
        [sum(values[start : start + each]) / len(values[start : start + each]) for start in starts],
    )


def _smooth(values: Sequence[float]) -> list[float]:
    """Running mean over a twentieth of all points to either side, as far as there are any."""
    reach = len(values) // 20
    found = []
    for place in range(len(values)):
        window = values[max(0, place - reach) : place + reach + 1]
        found.append(sum(window) / len(window))
    return found


def _facts(run: Path) -> list[tuple[str, Any]]:
    """What the run says of itself."""
    facts: dict[str, object] = {}
    for name in ("config.json", "checkpoint.json", "grpo.json"):
        try:
            document: Any = json.loads((run / name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(document, Mapping):
            settings = document.get("settings")
            facts |= {key: document[key] for key in _FACTS if key in document}
            facts |= {key: settings[key] for key in _FACTS if isinstance(settings, Mapping) and key in settings}
    shown = {name: value["name"] if isinstance(value, Mapping) and "name" in value else value for name, value in facts.items()}
    return [(name.capitalize(), value) for name, value in shown.items() if isinstance(value, str | int | float) and value != ""]


def _finite(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _short(value: float) -> str:
    return f"{value:.3g}".replace("-", "−")
