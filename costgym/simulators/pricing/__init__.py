"""Prices: what calls cost by duration and memory, and what a language model's tokens cost with a cache of prompts."""

from costgym.simulators.pricing.calls import PRICINGS, FaasPricing, ListPricing, Pricing
from costgym.simulators.pricing.prompt_cache import PrefixCache

__all__ = ["PRICINGS", "FaasPricing", "ListPricing", "PrefixCache", "Pricing"]
