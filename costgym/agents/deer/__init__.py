"""DEER: look before you leap. Whether to search for a tool, and whether a candidate fits."""

from costgym.agents.base import DECISION
from costgym.agents.deer.deciders import RATES, Decider, DecisionRates, DeerAgent, RuleAgent, RuleDecider, SimulatedDecider
from costgym.simulators.decision.samples import Example, examples
from costgym.simulators.decision.toolsets import MIXTURE, STRATEGIES, CandidateSampler

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
