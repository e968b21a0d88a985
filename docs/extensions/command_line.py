"""The reference of the command line, made from the Typer application."""

from __future__ import annotations

import html
import re
from typing import Any

import typer
from sphinx.application import Sphinx
from typer.cli import get_docs_for_click

import costgym
from costgym.cli.app import app as command_line


def overview(group: Any) -> str:
    """A table of a group's commands, each with the first paragraph of its help."""
    lines = ["| command | |", "| --- | --- |"]
    for name, command in group.commands.items():
        summary = " ".join((command.help or "").split("\n\n")[0].split())
        lines.append(f"| [`{name}`](#costgym-{name}) | {summary} |")
    return "\n".join(lines)


def reference() -> str:
    """All commands in Markdown: a table of our own, then each by Typer's own writer."""
    group = typer.main.get_command(command_line)
    text = html.unescape(get_docs_for_click(obj=group, ctx=typer.Context(group), name="costgym"))
    return f"{overview(group)}\n\n{text[text.index('## ') :]}"


def expand(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put the reference where a page asks for it with ``{command-line}``."""
    source[0] = re.sub(r"^```\{command-line\}\n```$", lambda _: reference(), source[0], flags=re.M)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", expand)
    return {"parallel_read_safe": True, "version": costgym.__version__}
