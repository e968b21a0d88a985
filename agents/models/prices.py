"""Prices of language models: a dated table that users edit, checked before anything runs.

The table is in US dollars; a scenario counts in a currency of its own. What a dollar is in that currency stands in the table
too, so tools' fees and models' tokens are added up in one unit.
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...simulators.errors import ConfigError, DataError, UnknownName
from ...simulators.scenario import Scenario, TokenPrices

DEFAULT_TABLE = Path(__file__).parent / "prices.yaml"


class PriceTable(BaseModel):
    """What models cost.

    Attributes:
        date: Day on which the prices were looked up.
        models: USD per million tokens, by the model's name.
        per_dollar: Worth of one US dollar in each currency of a scenario.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    date: datetime.date
    models: dict[str, TokenPrices]
    per_dollar: dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]] = {"USD": 1.0, "credits": 100.0}

    def of(self, model: str) -> TokenPrices:
        """The prices of a model, USD per million tokens.

        Raises:
            UnknownName: The table does not have it.
        """
        if model not in self.models:
            raise UnknownName("model in the price table", model, self.models)
        return self.models[model]

    def in_currency(self, model: str, currency: str) -> TokenPrices:
        """The prices of a model in a scenario's currency; a scenario's `tokens`.

        Raises:
            UnknownName: The table does not have the model.
            ConfigError: It does not say what a dollar is in that currency.
        """
        dollars = self.of(model)
        if currency not in self.per_dollar:
            known = ", ".join(self.per_dollar)
            raise ConfigError("price table", f"per_dollar: expected an entry for the currency {currency!r}; it has {known}")
        rate = self.per_dollar[currency]
        cached = None if dollars.cached is None else dollars.cached * rate
        return TokenPrices(input=dollars.input * rate, output=dollars.output * rate, cached=cached)

    def price(self, scenario: Scenario, model: str) -> Scenario:
        """The same scenario with a model's tokens priced; its description says by which table.

        Raises:
            UnknownName, ConfigError: As `in_currency`.
        """
        tokens = self.in_currency(model, scenario.currency)
        note = f"Tokens at the prices of {model}, {self.date.isoformat()}."
        return scenario.model_copy(update={"tokens": tokens, "description": f"{scenario.description} {note}".strip()})


def load_prices(path: str | Path = DEFAULT_TABLE) -> PriceTable:
    """Read a table.

    Raises:
        DataError: It cannot be read, or an entry makes no sense; names the entry.
    """
    try:
        document = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        return PriceTable.model_validate(document)
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(path, f"cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise DataError(path, "is no YAML") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise DataError(path, f"{first['msg']} (got {first['input']!r:.60})", where) from None
