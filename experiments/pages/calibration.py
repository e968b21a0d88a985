"""The page of a calibration: each tool's log and the written world, drawn over each other."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from ..fit.calibration.calibrate import Calibration, written
from ..fit.calibration.fits import WORKS
from ..fit.calibration.judge import FIGURES, Chain
from .charts import Estimate, distributions, estimates
from .html import asset, render

MAX_POINTS = 300
SHARES = ("success", "failure_after_failure", "refused")


def calibration_page(found: Calibration) -> str:
    """The report as a page that works from disk, has no script and asks nothing of the network."""
    report = found.report
    tools = [_tool(name, row, found) for name, row in report["tools"].items()]
    judged = [figure["within"] for row in report["tools"].values() for figure in row.get("reproduced", {}).values()]
    return render(
        "calibration.html",
        css=Markup(asset("page.css")),
        curves=Markup(asset("curves.css")),
        name=found.scenario.name,
        report=report,
        tools=tools,
        judged=len(judged),
        within=sum(judged),
    )


def _tool(name: str, row: Mapping[str, Any], found: Calibration) -> dict[str, Any]:
    reproduced, unseen = row.get("reproduced", {}), found.report["unseen"]["tools"].get(name, {}).get("figures", {})
    rows = [
        {
            "title": FIGURES[figure],
            "log": written(figure, value["log"]),
            "low": written(figure, value["ci95"][0]),
            "high": written(figure, value["ci95"][1]),
            "world": written(figure, value["world"]),
            "within": value["within"],
            "unseen": _unseen(figure, unseen.get(figure)),
        }
        for figure, value in reproduced.items()
    ]
    return {"name": name, "calls": row["calls"], "rows": rows, "charts": _charts(name, reproduced, found)}


def _unseen(figure: str, value: Mapping[str, Any] | None) -> str:
    if value is None:
        return "–"
    text = f"{written(figure, value['log'])}, predicted {written(figure, value['world'])}"
    return text if value["within"] else f"{text} (outside)"


def _charts(name: str, reproduced: Mapping[str, Any], found: Calibration) -> list[dict[str, Any]]:
    charts = []
    curves = [_seconds(chains) for chains in (found.logged.get(name, ()), found.simulated.get(name, ()))]
    if all(len(curve) > 1 for curve in curves):
        chart = distributions(curves, f"{name}: durations in the log and in the world", "seconds")
        charts.append({"title": "Durations of calls that worked", "chart": chart})
    shares = [
        Estimate(FIGURES[figure], value["log"], value["ci95"][0], value["ci95"][1], value["world"])
        for figure, value in reproduced.items()
        if figure in SHARES
    ]
    if shares:
        charts.append({"title": "Shares of calls", "chart": estimates(shares, f"{name}: shares in the log and in the world")})
    return charts


def _seconds(chains: Sequence[Chain]) -> list[float]:
    """Durations of calls that worked, ascending; evenly spaced ones of them where there are many."""
    found = sorted(call.latency_s for chain in chains for call in chain if call.status in WORKS and call.latency_s)
    if len(found) <= MAX_POINTS:
        return found
    return [found[round(index * (len(found) - 1) / (MAX_POINTS - 1))] for index in range(MAX_POINTS)]
