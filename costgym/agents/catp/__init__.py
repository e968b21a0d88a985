"""CATP-LLM: a policy that writes priced plans token by token. Nothing here imports torch until a policy is loaded."""

from costgym.agents.catp.planner import CatpPlanner
from costgym.agents.catp.settings import CatpSettings

__all__ = ["CatpPlanner", "CatpSettings"]
