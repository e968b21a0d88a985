"""The baseline table and its curves: interquartile means over training seeds, with bootstrap intervals."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from costgym.experiments.baselines.methods import METHODS
from costgym.experiments.baselines.run import Record
from costgym.experiments.pages.charts import SERIES, Panel, Series, panels
from costgym.experiments.play.metric_registry import span
from costgym.simulators.draws import stable_generator
from costgym.simulators.files import write_atomically

RESAMPLES = 2_000
Row = dict[str, Any]
SHARE_OF_BOUND = 0.95  # share of the informed optimum's pass rate that is the second mark in the time of learning curves
COLUMNS = (
    "method",
    "seeds",
    "pass rate",
    "return",
    "normalised return",
    "value share",
    "mean cost",
    "cost / limit",
    "over limit",
    "processor s",
    "s to greedy",
    "s to 95 %",
)


def iqm(values: Sequence[float]) -> float:
    """Return the interquartile mean: the mean without the lowest and the highest quarter of the values. Source: Agarwal et al.
    2021, Deep reinforcement learning at the edge of the statistical precipice."""
    ordered, cut = np.sort(np.asarray(values, dtype=np.float64)), len(values) // 4
    return float(ordered[cut : len(ordered) - cut].mean())


def interval(values: Sequence[float], name: str) -> tuple[float, float] | None:
    """Return the percentile bootstrap interval of the interquartile mean at 95 %, over training seeds; None for one seed."""
    if len(values) < 2:
        return None
    drawn = stable_generator(0, "baselines", name).choice(np.asarray(values), (RESAMPLES, len(values)))
    low, high = np.percentile([iqm(sample) for sample in drawn], (2.5, 97.5))
    return float(low), float(high)


def rows(records: Sequence[Record]) -> list[Row]:
    """Return one row for each environment, level and method. Normalised returns are 100 for `oracle-informed` at the same level
    and 0 for the better of `random` and `do-nothing`; left out where either end was not run."""
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record["env"], record["level"], record["method"]), []).append(record)
    rows = []
    for (env, level, method), runs in groups.items():
        ends = {
            name: iqm([run["figures"]["return"] for run in groups[env, level, name]])
            for name in ("random", "do-nothing", "oracle-informed")
            if (env, level, name) in groups
        }
        row: Row = {"env": env, "level": level, "method": method, "kind": METHODS[method].kind, "seeds": len(runs)}
        figures = ("success", "return", "value_share", "cost", "calls", "over_limit")
        for name in (name for name in figures if name in runs[0]["figures"]):
            row[name], row[f"{name}_interval"] = _summary([run["figures"][name] for run in runs], f"{method} {name}")
        if {"random", "oracle-informed"} <= ends.keys():
            # random actions may lose more than an agent that does nothing, which would then seem to have learnt something
            high = ends.pop("oracle-informed")
            low = max(ends.values())
            normal = [100.0 * (run["figures"]["return"] - low) / (high - low) for run in runs]
            row["normalised_return"], row["normalised_return_interval"] = _summary(normal, f"{method} normalised")
        row["split"] = runs[0]["split"]
        row["dataset"] = runs[0]["settings"].get("dataset") if row["kind"] == "offline" else None
        limit = runs[0]["cost_limit"]
        row["cost_by_limit"] = row["cost"] / limit
        row["limit_kept"] = sum(run["figures"]["cost"] <= limit for run in runs)
        row["seconds"], row["steps"] = iqm([run["seconds"] for run in runs]), iqm([run["steps"] for run in runs])
        for mark, name, share in (("greedy", "greedy", 1.0), ("bound", "oracle-informed", SHARE_OF_BOUND)):
            goal = groups.get((env, level, name))
            if row["kind"] in ("online", "constrained") and goal and goal[0]["curve"]:
                row[f"reached_{mark}"] = [_reached(run, share * goal[0]["curve"][0]["success"]) for run in runs]
        rows.append(row)
    order = list(METHODS)
    return sorted(rows, key=lambda row: (row["env"], row["level"], order.index(row["method"])))


def _reached(record: Record, success: float) -> float | None:
    """Seconds of processor time after which a run's curve first passes that share of the tasks; None if it never does."""
    return next((point["seconds"] for point in record["curve"] if point["success"] >= success), None)


def _summary(values: Sequence[float], name: str) -> tuple[float, tuple[float, float] | None]:
    return iqm(values), interval(values, name)


def sentence(row: Row, beside: Mapping[str, Row]) -> str:
    """Write what a row supports, beside the other rows of its environment and level."""
    name, kind = row["method"], row["kind"]
    parts = []
    rival = beside.get({"cql": "bc", "iql": "bc", "dt": "bc", "greedy": "random"}.get(name, "greedy"))
    interval = row["success_interval"] or ((row["success"], row["success"]) if kind == "rule" else None)
    if interval is None:
        parts.append("was trained under one seed, which supports no comparison")
    elif rival is not None:
        low, high = interval
        theirs = rival["success_interval"] or (rival["success"], rival["success"])
        gap = 100.0 * (row["success"] - rival["success"])
        if low > theirs[1]:
            parts.append(f"passes {gap:.1f} points more test tasks than `{rival['method']}`")
        elif high < theirs[0]:
            parts.append(f"passes {-gap:.1f} points fewer test tasks than `{rival['method']}`")
        else:
            parts.append(f"is not told apart from `{rival['method']}` in passes ({gap:+.1f} points; the intervals overlap)")
    if kind == "constrained":
        parts.append(f"keeps the limit on the mean cost in {row['limit_kept']} of {row['seeds']} runs")
    return f"`{name}` " + ", and ".join(parts) + "." if parts else ""


def table(rows: Sequence[Row]) -> str:
    """Markdown: a table for each environment and level, and what its rows support."""
    parts = []
    for env, level in dict.fromkeys((row["env"], row["level"]) for row in rows):
        methods = {row["method"]: row for row in rows if (row["env"], row["level"]) == (env, level)}
        lines = [COLUMNS, ("---",) * len(COLUMNS), *(_cells(row) for row in methods.values())]
        sources = (row["dataset"] or row["split"] for row in methods.values())
        learnt_from = next((f"; learnt from `{source}`" for source in sources if source), "")
        parts.append(f"### `{env}`" + (f", `{level}`" if level else "") + learnt_from + "\n")
        parts.append("\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n")
        sentences = [text for row in methods.values() if (text := sentence(row, methods))]
        parts.append("\n".join(f"* {text}" for text in sentences) + "\n")
    return "\n".join(part for part in parts if part.strip())


def _cells(row: Row) -> tuple[str, ...]:
    def cell(name: str, digits: int) -> str:
        if name not in row:
            return ""
        spread = row.get(f"{name}_interval")
        text = f"{round(row[name], digits) + 0.0:.{digits}f}"  # no -0
        return text if spread is None else f"{text} {span(*(f'{end:.{digits}f}'.replace('-', '−') for end in spread))}"

    def reached(name: str) -> str:
        times = [value for value in row.get(name, []) if value is not None]
        return f"{np.median(times):.0f} ({len(times)} of {row['seeds']})" if times else "never" if name in row else ""

    learnt = row["kind"] != "rule"
    return (
        f"`{row['method']}`",
        str(row["seeds"]),
        cell("success", 3),
        cell("return", 3),
        cell("normalised_return", 0),
        cell("value_share", 3),
        cell("cost", 2),
        f"{row['cost_by_limit']:.2f}",
        cell("over_limit", 2),
        f"{row['seconds']:.0f}" if learnt else "",
        reached("reached_greedy"),
        reached("reached_bound"),
    )


def curves(records: Sequence[Record]) -> str:
    """Return the learning curves as an SVG file: interquartile means over seeds at each measurement, a line a method."""
    grid = []
    for env, level in dict.fromkeys((record["env"], record["level"]) for record in records):
        shown = [run for run in records if (run["env"], run["level"]) == (env, level) and run["curve"]]
        names = [name for name in METHODS if any(run["method"] == name for run in shown)]
        longest = round(max(run["curve"][-1]["steps"] for run in shown) / 1000) if shown else 0
        line = []
        for figure, title in (("success", "pass rate"), ("cost", "mean cost")):
            drawn = []
            for colour, name in enumerate(names):
                points: dict[int, list[dict[str, float]]] = {}
                for run in shown:
                    for number, point in enumerate(run["curve"] if run["method"] == name else ()):
                        points.setdefault(number, []).append(point)
                xs = [round(iqm([point["steps"] for point in at]) / 1000) for at in points.values()]
                ys = [iqm([point[figure] for point in at]) for at in points.values()]
                if METHODS[name].kind == "rule":
                    xs, ys = [0, longest], [ys[0], ys[0]]
                drawn.append(Series(name, xs, ys, colour, dashed=METHODS[name].kind == "rule"))
            if figure == "cost" and any(METHODS[name].kind == "constrained" for name in names):
                drawn.append(Series("limit", [0, longest], [shown[0]["cost_limit"]] * 2, SERIES - 1, dashed=True))
            line.append(Panel(f"{title}, {level or env}", "thousand decisions", drawn))
        if longest:
            grid.append(line)
    return panels(grid) if grid else ""


def write(
    folder: str | Path, records: Sequence[Record], command: str, date: str, machine: str, missing: Sequence[str] = ()
) -> Path:
    """Write `baselines.md`, and `baselines.svg` where something learnt online; returns the page."""
    path = Path(folder)
    picture = curves(records)
    if picture:
        write_atomically(path / "baselines.svg", picture)
    text = f"`{command}`, {date}, {machine}.\n\n{table(rows(records))}"
    if missing:
        text += "\n" + "\n".join(f"* {line}." for line in missing) + "\n"
    if picture:
        text += "\n![Pass rate and mean cost on test tasks over decisions](baselines.svg)\n"
    write_atomically(path / "baselines.md", text)
    return path / "baselines.md"
