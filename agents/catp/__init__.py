"""CATP-LLM: a policy that writes priced plans token by token. Nothing here imports torch until a policy is loaded."""

from .planner import CatpPlanner
from .settings import CatpSettings

__all__ = ["CatpPlanner", "CatpSettings"]
