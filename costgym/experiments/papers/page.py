"""Write a reproduction as a Markdown page, with its curves and its claims as SVG files."""

import datetime
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

from costgym.experiments.papers.paper import PUBLISHED, Paper, Row
from costgym.experiments.papers.pictures import beside_svg
from costgym.experiments.papers.tables import EFFECT_HEADINGS, effect_lines, notes, tables, verdict
from costgym.simulators import __version__
from costgym.simulators.files import write_atomically

CAUSES = "Why the others do not, measured by one change at a time: *Why the others do not follow* in `docs/results/papers.md`."


def write_page(paper: Paper, rows_by_table: Mapping[str, Sequence[Row]], folder: str | Path, command: str) -> Path:
    """Write what `reproduce` returned into a folder as `NAME.md`, and for each protocol with curves an SVG; the page states the
    command that produced the rows, the date and the machine."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    name, curves = paper.name, rows_by_table.get("curves", ())
    pictures = []
    for protocol in dict.fromkeys(str(row["protocol"]) for row in curves):
        file = f"{name}.svg" if protocol == PUBLISHED else f"{name}-{protocol}.svg"
        assert paper.draw is not None, "a paper with curves draws them"
        write_atomically(folder / file, paper.draw([row for row in curves if row["protocol"] == protocol]))
        pictures.append((protocol, file))
    if picture := beside_svg(rows_by_table.get("effects", ())):
        write_atomically(folder / f"{name}-beside.svg", picture)
    path = folder / f"{name}.md"
    write_atomically(path, page(paper, rows_by_table, command, pictures))
    return path


def page(
    paper: Paper, rows_by_table: Mapping[str, Sequence[Row]], command: str, pictures: Sequence[tuple[str, str]] = ()
) -> str:
    """Return the Markdown text of the page."""
    machine = f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}"
    parts = [
        f"# {paper.title}: the paper's table and ours\n",
        f"`{command}`, costgym {__version__}, {datetime.date.today().isoformat()}, {machine}.\n",
        "Our rows are measured with a **simulated language model** (or deciders without a model). They show which effects "
        "follow in this world, not how good a real model is. Intervals are 95 %, by bootstrap over episodes. "
        + notes(paper, rows_by_table)
        + "\n",
    ]
    effects = rows_by_table.get("effects", ())
    if effects:
        parts.append(f"## Which effects follow\n\n{verdict(effects)} {CAUSES}\n")
        if any("paper" in row for row in effects):
            parts.append(f"![The paper's differences beside ours]({paper.name}-beside.svg)\n")
        parts.append(_table(EFFECT_HEADINGS, effect_lines(effects)))
    for title, headings, lines in tables(paper, rows_by_table):
        table = title.rpartition(" ")[2]
        heading = {"paper": "The paper", "ours": "Ours", **paper.headings}[table]
        parts.append(f"## {heading}\n")
        if table == "curves":
            parts += [f"![{heading}, {protocol} protocol]({file})\n" for protocol, file in pictures]
        parts.append(_table(headings, lines))
        sources = dict.fromkeys(row["source"] for row in rows_by_table[table] if "source" in row)
        if sources:
            parts.append("Source: " + "; ".join(sources) + ".\n")
    return "\n".join(parts)


def _table(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [headings, ["---"] * len(headings), *lines]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows) + "\n"
