"""`costgym prices`: price tables of language models."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Annotated

import typer

from ...simulators.errors import ConfigError
from ..output import PlainCommand, names_in

prices = typer.Typer(help="Price tables of language models' tokens.", no_args_is_help=True)


@prices.callback()
def _group() -> None:
    """Keep `import` a command of its own."""


@prices.command("import", cls=PlainCommand)
def import_table(
    file: Annotated[
        Path, typer.Argument(help="LiteLLM's model_prices_and_context_window.json, or OpenRouter's /api/v1/models.")
    ],
    date: Annotated[str, typer.Option("--date", metavar="YYYY-MM-DD", help="Day on which the file was fetched.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The table, for --prices.")] = Path("prices.yaml"),
    models: Annotated[str | None, typer.Option("--models", metavar="A,B,...", help="Only these.")] = None,
) -> None:
    """Write a dated price table from LiteLLM's or OpenRouter's.

    Example: `costgym prices import models.json --date 2026-11-22 --models openai/gpt-4o-mini`
    """
    from ...agents.models.prices import import_prices, write_prices
    from ...experiments.play.files import write_atomically

    try:
        day = datetime.date.fromisoformat(date)
    except ValueError:
        raise ConfigError("--date", f"expected a day as YYYY-MM-DD, got {date!r}") from None
    wanted = names_in(models)
    table = import_prices(file, day, wanted)
    write_atomically(out, write_prices(table, file.name))
    typer.echo(f"{len(table.models):,} models: {out}")
