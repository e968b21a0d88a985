"""Tool access: which tools a model sees and may call."""

from ..llm.types import Refusal, ToolAccess
from .ecoact import EcoAct
from .prompt import Prompt
from .search import Search
from .summary import Summary

__all__ = ["EcoAct", "Prompt", "Refusal", "Search", "Summary", "ToolAccess"]
