"""A marketplace of priced APIs: generated from a seed, or loaded from a data set's folder."""

from costgym.simulators.marketplace.generator import generate_marketplace
from costgym.simulators.marketplace.market import Marketplace

__all__ = ["Marketplace", "generate_marketplace"]
