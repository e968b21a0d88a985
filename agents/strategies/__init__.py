"""Strategies: how a model's replies make a search."""

from .chain import CotAtN, ReAct
from .plan_act import PlanThenAct
from .settings import SearchSettings
from .tree import Dfsdt, TotDfs

__all__ = ["CotAtN", "Dfsdt", "PlanThenAct", "ReAct", "SearchSettings", "TotDfs"]
