"""Planners for the OpenCATP tasks: oracles, simple rules, and language models with four kinds of prompt."""

import importlib
from typing import TYPE_CHECKING, Any

from costgym.agents.opencatp.base import PlanAgent, Planner, Proposal

if TYPE_CHECKING:
    from costgym.agents.registry import make_planner

__all__ = ["PlanAgent", "Planner", "Proposal", "make_planner"]


def __getattr__(name: str) -> Any:
    if name == "make_planner":
        return importlib.import_module("..registry", __name__).make_planner
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
