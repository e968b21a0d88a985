"""Prices of language models: a dated table that users edit, checked before anything runs.

The table is in US dollars; a scenario counts in a currency of its own. What a dollar is in that currency stands in the table
too, so tools' fees and models' tokens are added up in one unit.
"""

import datetime
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from costgym.simulators.errors import ConfigError, DataError, check_known
from costgym.simulators.files import read_json, read_yaml
from costgym.simulators.scenario import Scenario, TokenPrices

DEFAULT_TABLE = Path(__file__).parent / "prices.yaml"
SHIPPED = (DEFAULT_TABLE, Path(__file__).parent / "prices_2026_11.yaml")
"""Tables that come with the package. The first prices the default worlds and stays as it is; later ones have later models."""


class PriceTable(BaseModel):
    """Prices of models."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    date: datetime.date  # day on which the prices were looked up
    models: dict[str, TokenPrices]  # USD per million tokens, by the model's name
    # worth of one US dollar in each currency of a scenario
    per_dollar: dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]] = {"USD": 1.0, "credits": 100.0}

    def in_currency(self, model: str, currency: str) -> TokenPrices:
        """A model's prices in a scenario's currency; raises ConfigError where the table has no rate for it, or UnknownName."""
        check_known("model in the price table", model, self.models)
        dollars = self.models[model]
        if currency not in self.per_dollar:
            known = ", ".join(self.per_dollar)
            raise ConfigError("price table", f"per_dollar: expected an entry for the currency {currency!r}; it has {known}")
        rate = self.per_dollar[currency]
        cached = None if dollars.cached is None else dollars.cached * rate
        return TokenPrices(input=dollars.input * rate, output=dollars.output * rate, cached=cached)

    def price(self, scenario: Scenario, model: str) -> Scenario:
        """The scenario with a model's tokens priced, by this table as its description says; raises as `in_currency` does."""
        tokens = self.in_currency(model, scenario.currency)
        note = f"Tokens at the prices of {model}, {self.date.isoformat()}."
        return scenario.model_copy(update={"tokens": tokens, "description": f"{scenario.description} {note}".strip()})


def import_prices(path: str | Path, date: datetime.date, models: Sequence[str] | None = None) -> PriceTable:
    """Read the price table of LiteLLM or OpenRouter, fetched on `date`, for the wanted models or all.

    LiteLLM's is `model_prices_and_context_window.json` of its repository, OpenRouter's the answer of its `/api/v1/models`. Both
    price single tokens. Of LiteLLM's models those that chat are taken, and of both those with a price of input and of output.
    Raises DataError where it is neither format, and UnknownName for a wanted model without a price.
    """
    document = read_json(Path(path), follow=True)
    found: dict[str, TokenPrices] = {}
    if isinstance(document, dict) and isinstance(document.get("data"), list):
        for entry in document["data"]:
            prices = entry.get("pricing") if isinstance(entry, dict) else None
            if isinstance(prices, dict) and isinstance(entry.get("id"), str):
                _add(found, entry["id"], prices, "prompt", "completion", "input_cache_read")
    elif isinstance(document, dict):
        for name, entry in document.items():
            if isinstance(entry, dict) and entry.get("mode", "chat") in ("chat", "responses", "completion"):
                costs = ("input_cost_per_token", "output_cost_per_token", "cache_read_input_token_cost")
                _add(found, name, entry, *costs)
    if not found:
        raise DataError(path, "has no prices of tokens; expected LiteLLM's or OpenRouter's table of models")
    for name in models or ():
        check_known(f"model with prices in {path}", name, found)
    return PriceTable(date=date, models=found if models is None else {name: found[name] for name in models})


def _add(found: dict[str, TokenPrices], name: str, entry: dict[str, Any], *fields: str) -> None:
    """Add a model's prices, if it has a price of input and of output; "-1" stands for a price that varies."""
    numbers = []
    for field in fields:
        try:
            number = float(entry[field])
        except (KeyError, TypeError, ValueError):
            number = math.nan
        numbers.append(round(number * 1e6, 9) if math.isfinite(number) and number >= 0 else None)
    given, told, cached = numbers
    if given is not None and told is not None:
        found[name] = TokenPrices(input=given, output=told, cached=cached)


def write_prices(table: PriceTable, source: str) -> str:
    """A table as YAML that `load_prices` reads; its first line names the `source`."""
    document = table.model_dump(mode="json", exclude_none=True)
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, default_flow_style=None, width=120)
    return f"# USD per million tokens, from {source}.\n{text}"


def shipped_prices(model: str) -> PriceTable:
    """Return the first of the package's tables that lists a model; the newest if none does."""
    tables = [load_prices(path) for path in SHIPPED]
    return next((table for table in tables if model in table.models), tables[-1])


def load_prices(path: str | Path = DEFAULT_TABLE) -> PriceTable:
    """Read a table; raises DataError where it cannot be read, or an entry makes no sense; names the entry."""
    try:
        return PriceTable.model_validate(read_yaml(Path(path)))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise DataError(path, f"{first['msg']} (got {first['input']!r:.60})", where) from None
