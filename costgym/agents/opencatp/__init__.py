"""Planners for the OpenCATP tasks: oracles, simple rules, and language models with four kinds of prompt."""

from costgym.agents.opencatp.base import PlanAgent, Planner, Proposal

__all__ = ["PlanAgent", "Planner", "Proposal"]
