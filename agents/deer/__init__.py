"""DEER: look before you leap. Whether to search for a tool, and whether a candidate fits."""

from ...simulators.decision.samples import Example, examples
from ...simulators.decision.toolsets import MIXTURE, STRATEGIES, CandidateSampler
from ..base import DECISION
from .deciders import RATES, Decider, DecisionRates, DeerAgent, RuleAgent, RuleDecider, SimulatedDecider

__all__ = [
    "DECISION",
    "MIXTURE",
    "RATES",
    "STRATEGIES",
    "CandidateSampler",
    "Decider",
    "DecisionRates",
    "DeerAgent",
    "Example",
    "RuleAgent",
    "RuleDecider",
    "SimulatedDecider",
    "examples",
]
