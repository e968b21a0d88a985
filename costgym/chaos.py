"""Impose a scenario on real tools: `costgym.chaos.wrap(function, scenario="storm", seed=0, budget="price=20")`."""

from costgym.experiments.serve.proxy.call_log import give_verdict, read_runs, reliability
from costgym.experiments.serve.proxy.session import Settings
from costgym.experiments.serve.proxy.wrapping import Chaos, ConnectionFault, Fault, TimeoutFault, wrap

__all__ = ["Chaos", "ConnectionFault", "Fault", "Settings", "TimeoutFault", "give_verdict", "read_runs", "reliability", "wrap"]
