"""A marketplace of priced APIs: generated from a seed, or loaded from a data set's folder."""

from .generator import generate_marketplace
from .market import Marketplace

__all__ = ["Marketplace", "generate_marketplace"]
