"""Draw a paper's claims beside ours, and the curves that several papers have."""

from collections.abc import Sequence

from costgym.experiments.pages.charts import Estimate, Series, beside
from costgym.experiments.papers.claims import MARGIN, QUALITY_MARGIN, counted
from costgym.experiments.papers.paper import Row


def beside_svg(effects: Sequence[Row]) -> str:
    """Plot the differences of a paper's claims beside ours under the first protocol, as an SVG; "" where it prints none."""
    shown = [row for row in counted(effects) if "paper" in row and row["protocol"] == effects[0]["protocol"]]
    if not shown:
        return ""
    plans = any("Quality" in row["claim"] for row in shown)
    label = "difference in Quality of Plan" if plans else "difference in points; of costs, in percent"
    rows = [Estimate(row["claim"], value, low, high, row["paper"]) for row in shown for value, low, high in (row["here"],)]
    names = ("here, with its 95 % interval", "the paper, with the margin of the test")
    return beside(rows, label, QUALITY_MARGIN if plans else MARGIN, names)


def curve(name: str, rows: Sequence[Row], metric: str, colour: int, dashed: bool = False, scale: float = 1.0) -> Series:
    """Return a metric of some rows as a line over their `at`."""
    points = sorted((row["at"], row[metric] * scale) for row in rows)
    return Series(name, [at for at, _ in points], [value for _, value in points], colour, dashed=dashed)
