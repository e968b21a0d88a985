"""The table of the ranges that a scenario's numbers may lie in, made from `simulators.bounds`."""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx

import costgym
from costgym.simulators.bounds import BOUNDS


def table() -> str:
    """All ranges in Markdown, one row a number."""
    lines = ["| setting | from | to | unit |", "| --- | --- | --- | --- |"]
    for place, (low, high, unit, whole) in BOUNDS.items():
        lines.append(f"| `{place}` | {low:g} | {high:g} | {unit or ('a whole number' if whole else '')} |")
    return "\n".join(lines)


def expand(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put the table where a page asks for it with ``{ranges}``."""
    source[0] = source[0].replace("```{ranges}\n```", table())


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", expand)
    return {"parallel_read_safe": True, "version": costgym.__version__}
