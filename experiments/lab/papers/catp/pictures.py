"""Plot CATP-LLM's Figures 6 and 7 with our figures: quality over the weight of the score and over the policy's width."""

from collections.abc import Sequence

from ....pages.charts import Panel, Series, panels
from ..common import Row
from .policies import KINDS

_LABELS = {"alpha": "weight of the score, alpha", "width": "width of the policy"}


def curves_svg(rows: Sequence[Row]) -> str:
    """Plot the Quality of Plan of each agent as an SVG, one picture for each curve and kind of tasks."""
    agents = list(dict.fromkeys(str(row["agent"]) for row in rows if row["curve"] == "alpha"))
    grid = []
    for curve, label in _LABELS.items():
        own = [row for row in rows if row["curve"] == curve]
        if own:
            grid.append([Panel(f"Quality of Plan, {kind}", label, _series(own, kind, agents)) for kind in KINDS])
    return panels(grid)


def _series(rows: Sequence[Row], kind: str, agents: Sequence[str]) -> list[Series]:
    if rows[0]["curve"] == "width":
        return [_line("catp", [row for row in rows if row["tasks"] == kind], agents.index("catp"))]
    return [
        _line(agent, [row for row in rows if (row["tasks"], row["agent"]) == (kind, agent)], place)
        for place, agent in enumerate(agents)
    ]


def _line(name: str, rows: Sequence[Row], colour: int) -> Series:
    points = sorted((row["at"], row["quality_of_plan"]) for row in rows)
    return Series(name, [at for at, _ in points], [value for _, value in points], colour, dashed=name != "catp")
