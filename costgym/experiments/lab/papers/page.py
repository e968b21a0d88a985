"""Write a reproduction as a Markdown page, with its curves as an SVG file."""

import datetime
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

from costgym.experiments.lab.papers.claims import MARGIN, QUALITY_MARGIN, counted
from costgym.experiments.lab.papers.common import Row
from costgym.experiments.lab.papers.curves import curves_svg, plans_svg, steps_svg
from costgym.experiments.lab.papers.protocols import PUBLISHED
from costgym.experiments.lab.papers.tables import EFFECT_HEADINGS, effect_lines, notes, tables, verdict
from costgym.experiments.pages.charts import Estimate, beside
from costgym.simulators import __version__
from costgym.simulators.files import write_atomically

TITLES = {"btp": "BTP", "ecoact": "EcoAct", "deer": "DEER", "toolplanner": "ToolPlanner", "catp": "CATP-LLM"}
CAUSES = "Why the others do not, measured by one change at a time: *Why the others do not follow* in `docs/reproduce.md`."
_CURVES = {"btp": curves_svg, "ecoact": steps_svg, "catp": plans_svg}
_HEADINGS = {
    "btp": {"differences": "BTP less its plain form", "curves": "Over the budget R, the threshold τ and past uses"},
    "ecoact": {"curves": "Registered tools over the replies, above 20 tools (Figure 4)"},
    "toolplanner": {"differences": "Less plain search, and tags less paths"},
    "catp": {"differences": "Plan by plan", "curves": "Over the weight of the score, and over the policy's width"},
}


def write_page(name: str, found: Mapping[str, Sequence[Row]], folder: str | Path, command: str) -> Path:
    """Write what `reproduce` found into a folder as `NAME.md`, and for each protocol with curves an SVG; the page states the
    command that produced the rows, the date and the machine."""
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    pictures = []
    for protocol in dict.fromkeys(str(row["protocol"]) for row in found.get("curves", ())):
        rows = [row for row in found["curves"] if row["protocol"] == protocol]
        file = f"{name}.svg" if protocol == PUBLISHED else f"{name}-{protocol}.svg"
        write_atomically(place / file, _CURVES[name](rows))
        pictures.append((protocol, file))
    if picture := beside_svg(found.get("effects", ())):
        write_atomically(place / f"{name}-beside.svg", picture)
    path = place / f"{name}.md"
    write_atomically(path, page(name, found, command, pictures))
    return path


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


def page(name: str, found: Mapping[str, Sequence[Row]], command: str, pictures: Sequence[tuple[str, str]] = ()) -> str:
    """Return the Markdown text of the page."""
    machine = f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}"
    parts = [
        f"# {TITLES[name]}: the paper's table and ours\n",
        f"`{command}`, costgym {__version__}, {datetime.date.today().isoformat()}, {machine}.\n",
        "Our rows are measured with a **simulated language model** (or deciders without a model). They show which effects "
        "follow in this world, not how good a real model is. Intervals are 95 %, by bootstrap over episodes. "
        + notes(name, found)
        + "\n",
    ]
    if found.get("effects"):
        parts.append(f"## Which effects follow\n\n{verdict(found['effects'])} {CAUSES}\n")
        if any("paper" in row for row in found["effects"]):
            parts.append(f"![The paper's differences beside ours]({name}-beside.svg)\n")
        parts.append(_table(EFFECT_HEADINGS, effect_lines(found["effects"])))
    for title, headings, lines in tables(name, found):
        side = title.rpartition(" ")[2]
        heading = {"paper": "The paper", "ours": "Ours", **_HEADINGS.get(name, {})}[side]
        parts.append(f"## {heading}\n")
        if side == "curves":
            parts += [f"![{heading}, {protocol} protocol]({file})\n" for protocol, file in pictures]
        parts.append(_table(headings, lines))
        sources = dict.fromkeys(row["source"] for row in found[side] if "source" in row)
        if sources:
            parts.append("Source: " + "; ".join(sources) + ".\n")
    return "\n".join(parts)


def _table(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [headings, ["---"] * len(headings), *lines]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows) + "\n"
