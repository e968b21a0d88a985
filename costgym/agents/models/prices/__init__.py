"""Price tables of models' tokens: the shipped ones, a user's own, and tables of other projects."""

from costgym.agents.models.prices.table import DEFAULT_TABLE, SHIPPED, PriceTable, load_prices, shipped_prices, write_prices

__all__ = ["DEFAULT_TABLE", "SHIPPED", "PriceTable", "load_prices", "shipped_prices", "write_prices"]
