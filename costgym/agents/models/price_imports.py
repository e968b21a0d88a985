"""Read the price tables that others keep: LiteLLM's file, OpenRouter's list of models, and the package genai-prices.

All that they say of a model's tokens is read: classes of tokens, the cache's shortest prefix, prices of long prompts, and of
batches, flexible and priority processing as factors. Where a list contradicts itself, the model is left out.
"""

import datetime
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from costgym.agents.models.prices import PriceTable
from costgym.simulators.errors import ConfigError, DataError, check_known, require
from costgym.simulators.files import read_json
from costgym.simulators.prompt_cache import MILLION, ModelPrices

GENAI_PRICES = "genai-prices"
"""The name of the source that is not a file but an installed package."""
_LITELLM = {
    "input": "input_cost_per_token",
    "output": "output_cost_per_token",
    "cached": "cache_read_input_token_cost",
    "cache_write": "cache_creation_input_token_cost",
}
_OPENROUTER = {"input": "prompt", "output": "completion", "cached": "input_cache_read", "cache_write": "input_cache_write"}
_GENAI = {"input": "input_mtok", "output": "output_mtok", "cached": "cache_read_mtok", "cache_write": "cache_write_mtok"}
_CHATTING = ("chat", "responses", "completion")
_MODES = {"batch": "batches", "flex": "flex", "priority": "priority"}
_LONG = re.compile(r"input_cost_per_token_above_(\d{1,5})k_tokens")


def import_prices(source: str | Path, date: datetime.date, models: Sequence[str] | None = None) -> PriceTable:
    """Read a price table as it was on `date`, for the wanted models or all.

    Args:
        source: LiteLLM's `model_prices_and_context_window.json`, OpenRouter's answer of `/api/v1/models`, or "genai-prices",
            the installed package. Of LiteLLM's models those that chat are taken, and of all those with a price of input and
            of output.

    Raises:
        DataError: the file has none of these formats.
        UnknownName: a wanted model has no price.
    """
    entries = _genai_prices() if str(source) == GENAI_PRICES else _of_file(Path(source))
    found = {name: prices for name, fields in entries if (prices := _prices(fields)) is not None}
    if not found:
        raise DataError(source, "has no prices of tokens; expected LiteLLM's or OpenRouter's table of models")
    for name in models or ():
        check_known(f"model with prices in {source}", name, found)
    return PriceTable(date=date, models=found if models is None else {name: found[name] for name in models})


def _of_file(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    document = read_json(path)
    if isinstance(document, dict) and isinstance(document.get("data"), list):
        for entry in document["data"]:
            prices = entry.get("pricing") if isinstance(entry, dict) else None
            if isinstance(prices, dict) and isinstance(entry.get("id"), str):
                yield entry["id"], {**_classes(prices, _OPENROUTER), "per_request": _number(prices.get("request"))}
    elif isinstance(document, dict):
        for name, entry in document.items():
            if isinstance(entry, dict) and entry.get("mode", "chat") in _CHATTING:
                yield name, _litellm(entry)


def _litellm(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `ModelPrices` that an entry of LiteLLM's file has."""
    fields = _classes(entry, _LITELLM)
    fields["cache_write_1h"] = _per_million(entry.get("cache_creation_input_token_cost_above_1hr"))
    lengths = sorted({int(match[1]) for key in entry if (match := _LONG.fullmatch(key))})
    suffixes = [(1000 * length, f"_above_{length}k_tokens") for length in lengths]
    fields["above"] = [{"tokens": tokens, **_classes(entry, _LITELLM, suffix)} for tokens, suffix in suffixes]
    for mode, suffix in _MODES.items():
        ordinary, other = fields["input"], _per_million(entry.get(f"input_cost_per_token_{suffix}"))
        fields[mode] = round(other / ordinary, 6) if ordinary and other else None
    searches = entry.get("search_context_cost_per_query")
    if isinstance(searches, Mapping):
        fields["search_per_query"] = _number(searches.get("search_context_size_medium"))
    if isinstance(minimum := entry.get("prompt_cache_min_tokens"), int) and minimum > 0 and fields["cached"] is not None:
        fields["cache"] = {"minimum_tokens": minimum}
    return fields


def _genai_prices() -> Iterator[tuple[str, dict[str, Any]]]:
    """The models of the installed package, each under its own name and under that with its vendor's."""
    for provider in require("genai_prices.data", "prices").providers:
        for model in provider.models:
            prices = model.prices
            if isinstance(prices, list):  # dated prices: the last is today's
                prices = prices[-1].prices
            yield f"{provider.id}/{model.id}", _genai(vars(prices))


def _genai(prices: Mapping[str, Any]) -> dict[str, Any]:
    base = {name: getattr(prices.get(name), "base", prices.get(name)) for name in (*_GENAI.values(), "cache_write_1h_mtok")}
    fields: dict[str, Any] = {name: _number(base[theirs]) for name, theirs in _GENAI.items()}
    fields["cache_write_1h"] = _number(base["cache_write_1h_mtok"])
    lengths = sorted({tier.start for name in _GENAI.values() for tier in getattr(prices.get(name), "tiers", ())})
    fields["above"] = [
        {"tokens": length, **{name: _number(_at(prices.get(theirs), length)) for name, theirs in _GENAI.items()}}
        for length in lengths
    ]
    searches, requests = _number(prices.get("web_searches_kcount")), _number(prices.get("requests_kcount"))
    fields["search_per_query"] = None if searches is None else searches / 1000
    fields["per_request"] = None if requests is None else requests / 1000
    return fields


def _at(price: Any, length: int) -> Any:
    """A price for prompts of over so many tokens."""
    value = getattr(price, "base", price)
    for tier in getattr(price, "tiers", ()):
        value = tier.price if tier.start <= length else value
    return value


def _classes(entry: Mapping[str, Any], names: Mapping[str, str], suffix: str = "") -> dict[str, Any]:
    """Prices of the classes of tokens, per million."""
    return {name: _per_million(entry.get(theirs + suffix)) for name, theirs in names.items()}


def _prices(fields: Mapping[str, Any]) -> ModelPrices | None:
    """The prices of a model; None without a price of input and of output, or where they contradict each other."""
    stated = {name: value for name, value in fields.items() if value is not None}
    if "input" not in stated or "output" not in stated:
        return None
    stated["above"] = tuple(_stated(tier) for tier in stated.get("above", ()) if None not in (tier["input"], tier["output"]))
    if "cached" not in stated:  # written, but never read: the list is not complete
        stated = {name: value for name, value in stated.items() if not name.startswith("cache")}
    try:
        return ModelPrices(**stated)
    except ConfigError:
        return None


def _stated(tier: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in tier.items() if value is not None}


def _per_million(value: object) -> float | None:
    number = _number(value)
    return None if number is None else round(number * MILLION, 9)


def _number(value: object) -> float | None:
    """A price; "-1" stands for one that varies, which is none."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and number >= 0 else None
