"""Prices of language models: a dated table that users edit, checked before anything runs.

The table is in US dollars; a scenario counts in a currency of its own. What a dollar is in that currency stands in the table
too, so tools' fees and models' tokens are added up in one unit.
"""

import datetime
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from costgym.simulators.errors import ConfigError, DataError, check_known
from costgym.simulators.files import read_yaml, yaml_text
from costgym.simulators.pricing.prompt_cache import PER_DOLLAR, ModelPrices, in_currency
from costgym.simulators.scenario import Scenario, TokenPrices

DEFAULT_TABLE = Path(__file__).parent / "prices.yaml"
SHIPPED = (DEFAULT_TABLE, Path(__file__).parent / "prices_2026_11.yaml")
"""Tables that come with the package. The first prices the default worlds and stays as it is; later ones have later models."""


class PriceTable(BaseModel):
    """Prices of models."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    date: datetime.date  # day on which the prices were looked up
    models: dict[str, ModelPrices]  # USD per million tokens, by the model's name
    # worth of one US dollar in each currency of a scenario
    per_dollar: dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]] = PER_DOLLAR

    def in_currency(self, model: str, currency: str, world: int = 0) -> TokenPrices:
        """A model's prices in a scenario's currency, in a version of the world: version 0 knows no prices but those of input,
        output and cached input. Raises ConfigError where the table has no rate for the currency, or UnknownName."""
        check_known("model in the price table", model, self.models)
        dollars = self.models[model]
        if currency not in self.per_dollar:
            known = ", ".join(self.per_dollar)
            raise ConfigError("price table", f"per_dollar: expected an entry for the currency {currency!r}; it has {known}")
        prices = in_currency(dollars, self.per_dollar[currency])
        if world == 0:
            return TokenPrices(input=prices.input, output=prices.output, cached=prices.cached)
        return TokenPrices.of(prices.model_copy(update={"cache": prices.rules}))

    def price(self, scenario: Scenario, model: str) -> Scenario:
        """The scenario with a model's tokens priced, by this table as its description says; raises as `in_currency` does."""
        tokens = self.in_currency(model, scenario.currency, scenario.world)
        note = f"Tokens at the prices of {model}, {self.date.isoformat()}."
        return scenario.model_copy(update={"tokens": tokens, "description": f"{scenario.description} {note}".strip()})


def write_prices(table: PriceTable, source: str) -> str:
    """A table as YAML that `load_prices` reads; its first line names the `source`."""
    document = table.model_dump(mode="json", exclude={"models"})
    document["models"] = {name: prices.model_dump(mode="json", exclude_defaults=True) for name, prices in table.models.items()}
    return f"# USD per million tokens, from {source}.\n{yaml_text(document, flow=None)}"


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
        raise DataError(path, f"{first['msg'].removeprefix('Value error, ')} (got {first['input']!r:.60})", where) from None
