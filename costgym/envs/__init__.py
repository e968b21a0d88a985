"""Gymnasium environments over the simulated world."""

from costgym.envs.base import columns

__all__ = ["columns"]
