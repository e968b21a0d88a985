"""Impose the world's luck on real tools: `costgym.chaos.wrap(function, scenario="storm", seed=0, budget="price=20")`."""

from __future__ import annotations

from .experiments.proxy.reliability import reliability
from .experiments.proxy.wrapping import Chaos, ConnectionFault, Fault, TimeoutFault, wrap

__all__ = ["Chaos", "ConnectionFault", "Fault", "TimeoutFault", "reliability", "wrap"]
