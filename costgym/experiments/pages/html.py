"""Pages from templates: Jinja2 with everything escaped, and the static files beside the templates."""

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from costgym.experiments.play.metric_registry import plain, written

_FIGURE = re.compile(r"[\d.,]+ (?:%|¢|s\b)|\([^()\s]*–[^()\s]*\)")


def asset(name: str) -> str:
    """Return the text of a file beside the templates: a style or a script of ours."""
    return (files(__package__) / "templates" / name).read_text(encoding="utf-8").strip()


def render(template: str, **values: Any) -> str:
    """Render a page or a part of one from a template's file; every text is escaped unless it is `Markup`."""
    return _environment().get_template(template).render(**values)


def part(template: str, **values: Any) -> Markup:
    """Render a part of another page."""
    return Markup(render(template, **values).strip())


def breakable(name: str) -> Markup:
    """Escape an agent's name and allow it to be broken after each part: `dfsdt+` and `ecoact`, `zoo:` and `toolplanner`."""
    parts = re.split(r"(?<=[+:/])", plain(name))
    return Markup("<wbr>").join(parts)


def unbroken(text: str) -> Markup:
    """Escape a text and keep each figure on a line with its unit, and each interval whole."""
    return Markup(_FIGURE.sub(r'<span class="whole">\g<0></span>', str(escape(plain(text)))))


def embedded(data: object) -> Markup:
    """Write JSON that cannot end the script element it stands in, whatever a name holds."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(lambda name: asset(name) + "\n"),
        autoescape=True,
        finalize=_printable,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["written"] = written
    environment.filters["breakable"] = breakable
    environment.filters["unbroken"] = unbroken
    environment.filters["thousands"] = lambda value: f"{value:,}"
    return environment


def _printable(value: Any) -> Any:
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def cost_page(
    title: str, columns: Sequence[str], names: int, cells: Sequence[Sequence[str]], notes: Sequence[str], prices: str
) -> str:
    """A table of costs as a page that works from disk, has no script and asks nothing of the network.

    Args:
        names: how many of the columns name a row.
        prices: whose prices they are, in words.
    """
    values = {"title": title, "columns": columns, "names": names, "cells": cells, "notes": notes, "prices": prices}
    return render("cost.html", css=Markup(asset("page.css")), **values)
