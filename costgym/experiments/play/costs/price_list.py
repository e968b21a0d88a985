"""The prices by which costs are forecast and logs are priced: of a table, in a service tier, with a cache's time to live."""

from pathlib import Path
from typing import Annotated, ClassVar

from costgym.agents.models.prices import PriceTable, load_prices, shipped_prices
from costgym.simulators.bounds import Settings, option
from costgym.simulators.errors import ConfigError, UnknownName
from costgym.simulators.pricing.prompt_cache import SERVICE_TIERS, STANDARD, ModelPrices

CACHE_TTLS = ("5m", "1h")
_TIERS = ", ".join(SERVICE_TIERS)


class PriceList(Settings):
    """Prices of models by which requests are billed."""

    heading: ClassVar[str] = "Prices"

    prices: Annotated[Path | None, option("Price table; by default the package's.", "FILE")] = None
    service_tier: Annotated[
        str | None,
        option("Bill requests as standard, batch, flex or priority; by default as the log has it, or standard."),
    ] = None
    cache_ttl: Annotated[
        str | None, option("How long the cache keeps a prompt: 5m, or 1h at that price; by default as the table says.")
    ] = None

    def table(self, model: str, tier: str = STANDARD) -> tuple[PriceTable, str]:
        """The table with a model's prices as they are billed here, and the name under which it lists the model.

        Args:
            model: its name, perhaps with its vendor's, as in `openai/gpt-5-mini`.
            tier: the service tier of the request, where `service_tier` is not chosen.

        Raises:
            ConfigError: the model is in no table, has no price in this tier or of prompts that are kept for an hour; or a tier
                or time to live is unknown.
        """
        if self.cache_ttl not in (None, *CACHE_TTLS):
            raise ConfigError("--cache-ttl", f"expected {' or '.join(CACHE_TTLS)}, got {self.cache_ttl!r:.40}")
        if self.service_tier not in (None, *SERVICE_TIERS):
            raise ConfigError("--service-tier", f"expected one of {_TIERS}, got {self.service_tier!r:.40}")
        table = shipped_prices(model) if self.prices is None else load_prices(self.prices)
        name = model if model in table.models else model.rpartition("/")[2]
        if name not in table.models:
            problem = UnknownName("model in the price table", model, table.models)
            raise ConfigError("--prices", f"{problem}; give a table that lists it, or another model with --models")
        prices = self._as_billed(name, table.models[name], self.service_tier or tier)
        return table.model_copy(update={"models": {**table.models, name: prices}}), name

    def of(self, model: str, tier: str = STANDARD) -> ModelPrices:
        """A model's prices; arguments and errors are those of `table`."""
        table, name = self.table(model, tier)
        return table.models[name]

    def _as_billed(self, name: str, prices: ModelPrices, tier: str) -> ModelPrices:
        if self.cache_ttl == "1h":
            if prices.cache_write_1h is None:
                problem = f"{name} has no price of prompts that are kept for an hour"
                raise ConfigError("--cache-ttl", f"{problem}; give a table with its `cache_write_1h`, or leave the option out")
            prices = prices.kept_an_hour()
        elif self.cache_ttl == "5m" and prices.rules is not None:
            prices = prices.model_copy(update={"cache": prices.rules.model_copy(update={"ttl_s": 300.0})})
        if tier not in SERVICE_TIERS or (tier != STANDARD and getattr(prices, tier) is None):
            problem = f"{name} has no price in the service tier {tier!r:.40}"
            raise ConfigError("--service-tier", f"{problem}; give a table with its factor, or bill as another of {_TIERS}")
        return prices.in_service_tier(tier)


AS_LISTED = PriceList()
