"""Tables of the results that are made from files of figures, written into the pages so that a checkout shows them.

    python docs/extensions/appendix.py                      # write them again

A page marks such a table as ``<!-- NAME -->`` … ``<!-- end -->``; a test compares it with the files.
"""

import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
PAPERS = {"btp": "BTP", "ecoact": "EcoAct", "toolplanner": "ToolPlanner", "catp": "CATP-LLM", "deer": "DEER"}
TWINS = {
    "smollm2_strategies": "SmolLM2-135M, taught",
    "qwen_strategies": "Qwen2.5-Coder-0.5B, taught",
    "qwen": "Qwen2.5-Coder-0.5B, as published",
    "qwen15": "Qwen2.5-Coder-1.5B, as published",
    "qwen15_strategies": "Qwen2.5-Coder-1.5B, taught",
    "writes": "the three taught ones on tasks that write",
}
FIGURES = ("passed", "judged", "price", "calls")


def claims() -> str:
    """How many claims of each kind follow under a paper's published protocol."""
    lines = ["| paper | claim | follow |", "| --- | --- | --- |"]
    for name, title in PAPERS.items():
        kinds: dict[str, dict[bool, list[bool]]] = defaultdict(lambda: defaultdict(list))
        for row in _read(f"reproduce/{name}")["effects"]:
            if row["protocol"] == "published" and not row["by_construction"] and row["source"] != "not in the paper":
                kinds[_kind(row["claim"])][row["grading"]].append(bool(row["follows"]))
        for number, (claim, follows) in enumerate(kinds.items()):
            shares = "; ".join(f"{grading} {sum(values)}/{len(values)}".strip() for grading, values in follows.items())
            paper = "" if number else f"{title} "
            lines.append(f"| {paper}| {claim} | {shares} |")
    return "\n".join(lines)


def _kind(claim: str) -> str:
    """A claim without the base, the number of tools or the level that it is about, nor the system that it compares with."""
    claim = re.sub(r"^[^:]{1,40}: ", "", claim)
    return re.sub(r" (above that|than those) of \S+$", r" \1 of others", claim)


def twins() -> str:
    """How many figures of each model lie within the interval that its twin predicted."""
    lines = [
        "| model | runs | success, strict | success, judge | cost | calls |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, model in TWINS.items():
        rows = _read(f"twin_{name}_played")["rows"]
        hits = Counter(row["figure"] for row in rows if row["hit"])
        cells = (str(value) for value in (len(rows) // len(FIGURES), *(hits[figure] for figure in FIGURES)))
        lines.append(f"| {model} | {' | '.join(cells)} |")
    return "\n".join(lines)


def one_world() -> str:
    """What each idea of five papers adds in the one world, beside others and alone."""
    sys.path.insert(0, str(ROOT))  # benchmarks are part of the checkout, not of the package
    from benchmarks.one_world import tables

    return tables(_read("one_world"))


def _read(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


TABLES: dict[str, Callable[[], str]] = {"claims": claims, "twins": twins, "one-world": one_world}
PAGES = tuple(ROOT / "docs" / "results" / f"{name}.md" for name in ("papers", "twin", "one-world"))


def with_tables(page: str) -> str:
    """A page with its generated tables as the files have them now."""
    for name, table in TABLES.items():
        between = rf"(?<=<!-- {name} -->\n\n).*?(?=\n\n<!-- end -->)"
        page = re.sub(between, lambda _, table=table: table(), page, flags=re.DOTALL)
    return page


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")
