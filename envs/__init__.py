"""Gymnasium environments over the simulated world."""

from .base import columns

__all__ = ["columns"]
