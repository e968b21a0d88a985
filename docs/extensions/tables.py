"""Tables of the guide that are made from the code: ranges of numbers, metrics of a leaderboard, adversaries, probes, rules."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import costgym
from costgym.experiments.play.metric_registry import CURRENCY, REGISTRY
from costgym.simulators.bounds import BOUNDS

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def ranges() -> str:
    """All ranges in Markdown, one row a number."""
    lines = ["| setting | from | to | unit |", "| --- | --- | --- | --- |"]
    for path, (low, high, unit, whole) in BOUNDS.items():
        lines.append(f"| `{path}` | {low:g} | {high:g} | {unit or ('a whole number' if whole else '')} |")
    return "\n".join(lines)


def metrics() -> str:
    """All metrics in Markdown, one row each."""
    lines = ["| metric | in `leaderboard.json` | unit | meaning |", "| --- | --- | --- | --- |"]
    for metric in REGISTRY.values():
        key = f"`{metric.key}`" + (f", `{metric.judge}`" if metric.judge else "")
        unit = "the world's currency" if metric.unit == CURRENCY else metric.unit
        lines.append(f"| {metric.name} | {key} | {unit} | {metric.meaning} |")
    return "\n".join(lines)


def adversaries() -> str:
    """The corpus of agents and entries that cheat."""
    sys.path.insert(0, str(Path(__file__).parents[2]))  # tests are part of the checkout, not of the package
    from tests.adversaries.corpus import table

    return table()


def probes() -> str:
    """The attacks on the sandbox, with what `benchmarks/hostile/sandbox.py` found."""
    root = Path(__file__).parents[2]
    sys.path.insert(0, str(root))
    from tests.adversaries.probes import table

    return table(json.loads((root / "benchmarks/results/sandbox.json").read_text(encoding="utf-8")))


def rules() -> str:
    """The functions that state the rules of the world."""
    sys.path.insert(0, str(Path(__file__).parents[2]))
    from tests.helpers.rule_book import table

    return table()


TABLES: dict[str, Callable[[], str]] = {
    "ranges": ranges, "metrics": metrics, "adversaries": adversaries, "probes": probes, "rules": rules,
}  # fmt: skip


def included(match: re.Match[str]) -> str:
    """MyST's directive that includes a file of the repository, whose links lead from its root."""
    return f"```{{include}} {match[1]}\n:relative-docs: docs/\n```"


def expand(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put a table where a page has ``<!-- table: NAME -->``, and a file for ``<!-- include: FILE -->``."""
    text = re.sub(r"^<!-- table: (\w+) -->$", lambda match: TABLES[match[1]](), source[0], flags=re.MULTILINE)
    if docname in ("project/changelog", "project/contributing"):
        text = text[text.index("<!--") :]  # the file has a title of its own
    source[0] = re.sub(r"^<!-- include: (\S+) -->$", included, text, flags=re.MULTILINE)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", expand)
    return {"parallel_read_safe": True, "version": costgym.__version__}
