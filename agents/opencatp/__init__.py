"""Planners for the OpenCATP tasks: oracles, simple rules, and language models with four kinds of prompt."""

from __future__ import annotations

from .base import PlanAgent, Planner, Proposal
from .registry import is_planner, make_plan_agent, make_planner, planner_names

__all__ = ["PlanAgent", "Planner", "Proposal", "is_planner", "make_plan_agent", "make_planner", "planner_names"]
