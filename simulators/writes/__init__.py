"""Writes: calls that change the world, and whose end does not always tell whether they did."""

from .store import Store, WriteFigures, about

__all__ = ["Store", "WriteFigures", "about"]
