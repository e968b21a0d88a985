"""What a language model's tokens cost as vendors charge them: classes of tokens, and the cache of prompts that they share.

A prompt is a sequence of segments: functions, system message, messages. What an earlier request began with is read from the
cache, at a lower price, if it is long enough and its time to live has not passed; the rest is computed again, and some vendors
charge extra for keeping it. The cache lives on the simulated clock, so a tool that takes six minutes costs the prefix.
"""

import hashlib
from collections.abc import Iterable
from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from costgym.simulators.bounds import Amount, Count, StrictModel, is_none
from costgym.simulators.pricing.usage import MAX_MARKS, Segment, Usage

MILLION = 1e6
STANDARD = "standard"
SERVICE_TIERS = (STANDARD, "batch", "flex", "priority")
"""How soon a vendor answers a request; the price depends on it."""
TOKEN_PRICES = ("input", "output", "cached", "cache_write", "cache_write_1h")


class CacheRules(StrictModel):
    """When a prompt's beginning is read from a vendor's cache."""

    minimum_tokens: Count = Field(default=1024, description="Shorter prefixes are neither kept nor read.")
    step_tokens: Count = Field(default=1, description="Tokens that are read count in whole steps of this many.")
    ttl_s: Amount = Field(default=300.0, description="Seconds after the last use for which a prefix is kept.")
    breakpoints: Annotated[int, Field(ge=1, le=MAX_MARKS)] | None = Field(
        default=None,
        exclude_if=is_none,
        description="Marks of a request at most: what a prompt begins with is kept up to its end, and up to the others, which "
        "clients set behind functions and system message. None: every beginning is kept.",
    )
    order: Literal["functions", "system"] = Field(default="functions", description="What a prompt begins with.")


class LongPrices(StrictModel):
    """Prices of a request whose prompt is longer than so many tokens, USD per million; other prices stay."""

    tokens: Count
    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)
    cached: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    cache_write: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    cache_write_1h: float | None = Field(default=None, ge=0, allow_inf_nan=False, exclude_if=is_none)


class ModelPrices(StrictModel):
    """Prices of a language model: USD per million tokens by class, and what else a vendor's list has.

    Attributes:
        cached: of prompt tokens that are read from the cache; None where the vendor has no cache.
        cache_write, cache_write_1h: of prompt tokens that are written to it, to be kept for minutes or an hour; None where
            writing is free, so that these tokens cost what other prompt tokens do.
        cache: the rules of the cache.
        above: prices of long prompts, by ascending length.
        window: tokens that a request's prompt may have at most; None where that is not known.
        batch, flex, priority: factors on all token prices in these service tiers.
        per_request: USD for each request; `search_per_query`: USD for each search of the vendor's own.

    >>> prices = ModelPrices(input=2, output=10, cached=0.2)
    >>> prices.price(Usage(input_tokens=1_000_000, output_tokens=0, cached_tokens=500_000))
    1.1
    """

    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)
    cached: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    cache_write: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    cache_write_1h: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    cache: CacheRules | None = None
    above: tuple[LongPrices, ...] = ()
    window: Annotated[int, Field(gt=0)] | None = None
    batch: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    flex: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    priority: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    per_request: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    search_per_query: float | None = Field(default=None, ge=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.cached is None and (self.cache is not None or self.cache_write is not None or self.cache_write_1h is not None):
            raise ValueError(
                "a cache needs a price of what is read from it; add `cached`, or leave out `cache` and `cache_write`"
            )
        lengths = [tier.tokens for tier in self.above]
        if any(low >= high for low, high in pairwise(lengths)):
            raise ValueError(f"above: expected ascending numbers of tokens, got {lengths}")
        below: ModelPrices | LongPrices = self
        for tier in self.above:
            if tier.input < below.input or tier.output < below.output:
                raise ValueError(
                    f"above: prompts of over {tier.tokens} tokens cost less than shorter ones; expected at least the same price"
                )
            below = tier
        return self

    @property
    def rules(self) -> CacheRules | None:
        """The rules of the cache; the usual ones where only its price is known, None where there is none."""
        return self.cache if self.cache is not None or self.cached is None else CacheRules()

    def price(self, usage: Usage, written_1h_tokens: int = 0, searches: int = 0) -> float:
        """The price of one request, USD: every token by its class and by the length of the prompt.

        Args:
            written_1h_tokens: those of the tokens written to the cache that are to be kept for an hour.
            searches: of the vendor's own, made for the reply.
        """
        tier: ModelPrices | LongPrices = self
        for longer in self.above:
            if usage.input_tokens > longer.tokens:
                tier = longer
        cached = self._class_price(tier, "cached") if usage.cached_tokens else 0.0
        written = self._class_price(tier, "cache_write") if usage.cache_write_tokens else 0.0
        fresh = usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens
        total = fresh * tier.input + usage.cached_tokens * cached + usage.cache_write_tokens * written
        if written_1h_tokens:
            total += written_1h_tokens * (self._class_price(tier, "cache_write_1h") - written)
        fees = self.per_request + searches * (self.search_per_query or 0.0)
        return (total + usage.output_tokens * tier.output) / MILLION + fees

    def in_service_tier(self, tier: str) -> "ModelPrices":
        """The prices of requests in one of `SERVICE_TIERS`, for which the list must have a factor."""
        factor = 1.0 if tier == STANDARD else float(getattr(self, tier))
        above = tuple(longer.model_copy(update=_scaled(longer, factor, TOKEN_PRICES)) for longer in self.above)
        return self.model_copy(update={**_scaled(self, factor, TOKEN_PRICES), "above": above})

    def kept_an_hour(self) -> "ModelPrices":
        """The prices and rules where every prompt is written to the cache for an hour, for which the list must have a price."""
        rules = (self.rules or CacheRules()).model_copy(update={"ttl_s": 3600.0})
        above = tuple(longer.model_copy(update={"cache_write": longer.cache_write_1h}) for longer in self.above)
        return self.model_copy(update={"cache_write": self.cache_write_1h, "cache": rules, "above": above})

    def _class_price(self, tier: "ModelPrices | LongPrices", name: str) -> float:
        """The price of a class in a tier; where the tier has none, the ordinary price in the proportion of the input's."""
        price: float | None = getattr(tier, name)
        ordinary: float | None = getattr(self, name)
        if price is not None or ordinary is None:
            return tier.input if price is None else price
        return ordinary * tier.input / self.input if self.input else ordinary


class PrefixCache:
    """The cache of one scope: prompts of an episode, or of an agent whose episodes begin alike.

    Args:
        prices: of the model; without a price of cached tokens nothing is ever read.

    >>> cache = PrefixCache(ModelPrices(input=2, output=10, cached=0.2))
    >>> cache.bill([("functions", 2000), ("question", 100)], at_s=0.0).cached_tokens
    0
    >>> cache.bill([("functions", 2000), ("question", 100), ("answer", 50)], at_s=200.0).cached_tokens
    2100
    >>> cache.bill([("functions", 2000), ("question", 100)], at_s=900.0).cached_tokens
    0
    """

    def __init__(self, prices: ModelPrices) -> None:
        self.prices = prices
        self._used_s: dict[bytes, float] = {}  # when the prefix with this digest was last used
        self._last: list[tuple[bytes, int]] = []  # digest and length of each beginning of the last prompt

    def bill(
        self, segments: Iterable[Segment], at_s: float, output_tokens: int = 0, same: int = 0, marks: Iterable[int] = ()
    ) -> Usage:
        """Count one request's tokens by class, and keep its prompt.

        Args:
            segments: the prompt's parts in the vendor's order, each with a digest and its tokens.
            at_s: simulated time of the request, seconds; it must not run back.
            output_tokens: tokens of the reply.
            same: leading parts of the prompt before that stand in front of these; as many as that had at most.
            marks: numbers of leading parts behind which a mark stands, where the vendor's rules limit these.
        """
        rules = self.prices.rules
        self._last = prefixes = _prefixes(segments, self._last[:same])
        total = prefixes[-1][1] if prefixes else 0
        if rules is None:
            return Usage(total, output_tokens)
        read = 0
        for digest, length in prefixes:
            if at_s - self._used_s.get(digest, -float("inf")) <= rules.ttl_s:
                read = length
            elif rules.breakpoints is None:
                break
        if read < rules.minimum_tokens:
            read = 0
        read -= read % rules.step_tokens
        if total >= rules.minimum_tokens:
            self._used_s.update((digest, at_s) for digest, _ in _stored(prefixes, marks, rules.breakpoints))
        written = total - read if self.prices.cache_write is not None and total >= rules.minimum_tokens else 0
        return Usage(total, output_tokens, read, cache_write_tokens=written)


def _stored(prefixes: list[tuple[bytes, int]], marks: Iterable[int], breakpoints: int | None) -> list[tuple[bytes, int]]:
    """The beginnings of a prompt that are kept."""
    if breakpoints is None:
        return prefixes
    return [prefixes[-1], *[prefixes[mark - 1] for mark in list(marks)[: breakpoints - 1] if mark <= len(prefixes)]]


def _prefixes(segments: Iterable[Segment], first: list[tuple[bytes, int]]) -> list[tuple[bytes, int]]:
    """The digest and the length in tokens of each beginning of a prompt, of which the `first` are known."""
    prefixes = list(first)
    digest, length = prefixes[-1] if prefixes else (b"", 0)
    for name, tokens in segments:
        digest = hashlib.blake2b(digest + name.encode(), digest_size=16).digest()
        length += tokens
        prefixes.append((digest, length))
    return prefixes


PER_DOLLAR = {"USD": 1.0, "credits": 100.0}  # units of a currency that are a US dollar
USUAL = ModelPrices(input=2, output=10, cached=0.2, cache_write=2.5, cache=CacheRules(), window=200_000)
"""What a model's tokens cost, USD per million, where a scenario of version 1 of the world does not say: the prices of
claude-sonnet-5 of 27 November 2026."""


def in_currency(prices: ModelPrices, per_dollar: float) -> ModelPrices:
    """Prices in a currency of which so many units are a dollar."""
    names = (*TOKEN_PRICES, "per_request", "search_per_query")
    above = tuple(tier.model_copy(update=_scaled(tier, per_dollar, TOKEN_PRICES)) for tier in prices.above)
    return prices.model_copy(update={**_scaled(prices, per_dollar, names), "above": above})


def _scaled(prices: ModelPrices | LongPrices, factor: float, names: Iterable[str]) -> dict[str, float]:
    """What a list states of these prices, times a factor."""
    return {name: value * factor for name in names if (value := getattr(prices, name, None)) is not None}
