"""Prices of language models: a dated table that users edit, checked before anything runs."""

from __future__ import annotations

import datetime
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from ...simulators.errors import DataError, UnknownName
from ...simulators.scenario import TokenPrices

DEFAULT_TABLE = Path(__file__).parent / "prices.yaml"


class PriceTable(BaseModel):
    """What models cost.

    Attributes:
        date: when the prices were looked up.
        models: USD per million tokens, by the model's name.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    date: datetime.date
    models: dict[str, TokenPrices]

    def of(self, model: str) -> TokenPrices:
        """The prices of a model; a scenario's `tokens`.

        Raises:
            UnknownName: the table does not have it.
        """
        if model not in self.models:
            raise UnknownName("model in the price table", model, self.models)
        return self.models[model]


def load_prices(path: str | Path = DEFAULT_TABLE) -> PriceTable:
    """Read a table.

    Raises:
        DataError: it cannot be read, or an entry makes no sense; names the entry.
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
