"""The reference of the command line, made from the Typer application."""

from __future__ import annotations

import html
import importlib
import re
from typing import TYPE_CHECKING, Any

import typer
from typer.cli import get_docs_for_click

import costgym
from costgym.cli.app import app as command_line
from costgym.cli.setting_options import options_of
from costgym.cli.verbs import Group

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def overview(group: Any) -> str:
    """A table of a group's commands, each with the first paragraph of its help."""
    lines = ["| command | |", "| --- | --- |"]
    for name, command in group.commands.items():
        summary = " ".join((command.help or "").split("\n\n")[0].split())
        lines.append(f"| [`{name}`](#costgym-{name}) | {summary} |")
    return "\n".join(lines)


def reference() -> str:
    """All commands in Markdown: a table of our own, then each by Typer's own writer."""
    lazy: Any = typer.main.get_command(command_line)
    group = Group(name="costgym", help=lazy.help, commands={name: lazy.load(name) for name in lazy.entries})
    text = html.unescape(get_docs_for_click(obj=group, ctx=typer.Context(group), name="costgym"))
    return f"{overview(group)}\n\n{text[text.index('## ') :]}"


def options(path: str) -> str:
    """The options of a settings model, such as ``costgym.experiments.train.sb3.settings:PpoSettings``, as a table."""
    module, _, name = path.partition(":")
    lines = ["| option | meaning |", "| --- | --- |"]
    for option in options_of(getattr(importlib.import_module(module), name)):
        spelled = " ".join(filter(None, (option.names[0], option.extra.get("metavar"))))
        lines.append(f"| `{spelled}` | {option.help} |".replace("NAME|FILE", "NAME\\|FILE"))
    return "\n".join(lines)


def expand(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put the reference where a page has ``<!-- command line -->``, and a table of options for ``<!-- options: PATH -->``."""
    source[0] = re.sub(r"^<!-- command line -->$", lambda _: reference(), source[0], flags=re.M)
    source[0] = re.sub(r"^<!-- options: (\S+) -->$", lambda match: options(match[1]), source[0], flags=re.M)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", expand)
    return {"parallel_read_safe": True, "version": costgym.__version__}
