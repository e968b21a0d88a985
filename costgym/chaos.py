"""Impose the world's luck on real tools: `costgym.chaos.wrap(function, scenario="storm", seed=0, budget="price=20")`."""

from __future__ import annotations

from .experiments.proxy.call_log import give_verdict, read_runs
from .experiments.proxy.reliability import reliability
from .experiments.proxy.wrapping import Chaos, ConnectionFault, Fault, TimeoutFault, wrap

__all__ = ["Chaos", "ConnectionFault", "Fault", "TimeoutFault", "give_verdict", "read_runs", "reliability", "wrap"]
