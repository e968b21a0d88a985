"""Read the price tables that others keep: LiteLLM's file, OpenRouter's list of models, and the package genai-prices.

All that they say of a model's tokens is read: classes of tokens, the cache's shortest prefix, the longest prompt, prices of
long prompts, of requests and searches, and of service tiers as factors. A tier in which the classes have different factors is
left out, so that its requests are refused rather than billed wrongly; so is a model whose prices contradict each other.
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
from costgym.simulators.pricing.prompt_cache import MILLION, ModelPrices

GENAI_PRICES = "genai-prices"
"""The name of the source that is not a file but an installed package."""
_LITELLM = {
    "input": "input_cost_per_token",
    "output": "output_cost_per_token",
    "cached": "cache_read_input_token_cost",
    "cache_write": "cache_creation_input_token_cost",
    "cache_write_1h": "cache_creation_input_token_cost_above_1hr",
}
_OPENROUTER = {"input": "prompt", "output": "completion", "cached": "input_cache_read", "cache_write": "input_cache_write"}
_GENAI = {
    "input": "input_mtok", "output": "output_mtok", "cached": "cache_read_mtok", "cache_write": "cache_write_mtok",
    "cache_write_1h": "cache_write_1h_mtok",
}  # fmt: skip
_CHATTING = ("chat", "responses", "completion")
_TIERS = {"batch": "batches", "flex": "flex", "priority": "priority"}
_SAME_FACTOR = 0.05  # lists round prices
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
    entries = _genai_prices(date) if str(source) == GENAI_PRICES else _of_file(Path(source))
    priced = {name: prices for name, fields in entries if (prices := _prices(fields)) is not None}
    if not priced:
        raise DataError(source, "has no prices of tokens; expected LiteLLM's or OpenRouter's table of models")
    for name in models or ():
        check_known(f"model with prices in {source}", name, priced)
    return PriceTable(date=date, models=priced if models is None else {name: priced[name] for name in models})


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
    for tier, suffix in _TIERS.items():
        fields[tier] = _factor(fields, _classes(entry, _LITELLM, f"_{suffix}"))
    lengths = sorted({int(match[1]) for key in entry if (match := _LONG.fullmatch(key))})
    suffixes = [(1000 * length, f"_above_{length}k_tokens") for length in lengths]
    fields["above"] = [{"tokens": tokens, **_classes(entry, _LITELLM, suffix)} for tokens, suffix in suffixes]
    fields["window"], fields["per_request"] = (
        _tokens(entry.get("max_input_tokens")),
        _number(entry.get("input_cost_per_request")),
    )
    searches = entry.get("search_context_cost_per_query")
    if isinstance(searches, Mapping):
        fields["search_per_query"] = _number(searches.get("search_context_size_medium"))
    if (minimum := _tokens(entry.get("prompt_cache_min_tokens"))) and fields["cached"] is not None:
        fields["cache"] = {"minimum_tokens": minimum}
    return fields


def _factor(ordinary: Mapping[str, Any], other: Mapping[str, Any]) -> float | None:
    """The factor between a tier's prices and the ordinary ones; None where classes differ or one is not stated."""
    if not (ordinary["input"] and ordinary["output"]) or None in (other["input"], other["output"]):
        return None
    factors = [other[name] / ordinary[name] for name in _LITELLM if other[name] is not None and ordinary[name]]
    alike = min(factors) > 0 and max(factors) / min(factors) < 1 + _SAME_FACTOR
    return round(factors[0], 6) if alike else None


def _genai_prices(date: datetime.date) -> Iterator[tuple[str, dict[str, Any]]]:
    """The models of the installed package with the prices of a day, each under its vendor's name and its own."""
    for provider in require("genai_prices.data", "prices").providers:
        for model in provider.models:
            prices = model.prices
            if isinstance(prices, list):  # the last that holds on that day
                noon = datetime.datetime.combine(date, datetime.time(12), datetime.UTC)
                holding = [dated.prices for dated in prices if dated.constraint is None or dated.constraint.active(noon)]
                prices = (holding or [prices[0].prices])[-1]
            fields = {**_genai(vars(prices)), "window": _tokens(model.context_window)}
            for variant in getattr(model, "price_variants", None) or ():
                tier = variant.when.get("service_tier", variant.when.get("processing"))
                if tier in _TIERS and len(variant.when) == 1 and variant.constraint is None:
                    fields[tier] = _factor(fields, _genai(vars(variant.prices)))
            yield f"{provider.id}/{model.id}", fields


def _genai(prices: Mapping[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {name: _number(_base(prices.get(theirs))) for name, theirs in _GENAI.items()}
    lengths = sorted({tier.start for name in _GENAI.values() for tier in getattr(prices.get(name), "tiers", ())})
    fields["above"] = [
        {"tokens": length, **{name: _number(_at(prices.get(theirs), length)) for name, theirs in _GENAI.items()}}
        for length in lengths
    ]
    searches, requests = _number(prices.get("web_searches_kcount")), _number(prices.get("requests_kcount"))
    fields["search_per_query"] = None if searches is None else searches / 1000
    fields["per_request"] = None if requests is None else requests / 1000
    return fields


def _base(price: Any) -> Any:
    """A price for prompts of any length, or for the shortest."""
    return getattr(price, "base", price)


def _at(price: Any, length: int) -> Any:
    """A price for prompts of over so many tokens."""
    value = _base(price)
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
    if "cached" not in stated:  # written, but never read: the list is not complete
        stated = {name: value for name, value in stated.items() if not name.startswith("cache")}
    tiers = [tier for tier in stated.get("above", ()) if None not in (tier["input"], tier["output"])]
    stated["above"] = tuple({name: tier[name] for name in tier if name == "tokens" or name in stated} for tier in tiers)
    try:
        return ModelPrices(**stated)
    except ConfigError:
        return None


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


def _tokens(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
