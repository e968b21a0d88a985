"""`costgym prices`: price tables of language models."""

import datetime
from pathlib import Path
from typing import Annotated

import typer

from costgym.cli.verbs import Verbs
from costgym.simulators.bounds import argument, option
from costgym.simulators.errors import ConfigError

prices = Verbs(help="Price tables of language models' tokens.")


@prices.command("import")
def import_table(
    file: Annotated[
        Path, argument("LiteLLM's model_prices_and_context_window.json, OpenRouter's /api/v1/models, or genai-prices.")
    ],
    date: Annotated[str, option("Day on which the file was downloaded.", "YYYY-MM-DD")],
    out: Annotated[Path, option("The table, for --prices.", "FILE")] = Path("prices.yaml"),
    models: Annotated[tuple[str, ...] | None, option("Only these.", "A,B,...")] = None,
) -> None:
    """Write a dated price table from LiteLLM's file, OpenRouter's list or the installed package genai-prices.

    Example: `costgym prices import models.json --date 2026-11-22 --models openai/gpt-4o-mini`
    """
    from costgym.agents.models.prices import write_prices
    from costgym.agents.models.prices.imports import import_prices
    from costgym.simulators.files import write_atomically

    try:
        day = datetime.date.fromisoformat(date)
    except ValueError:
        raise ConfigError("--date", f"expected a day as YYYY-MM-DD, got {date!r}") from None
    table = import_prices(file, day, None if models is None else list(models))
    write_atomically(out, write_prices(table, file.name))
    typer.echo(f"{len(table.models):,} models: {out}")
