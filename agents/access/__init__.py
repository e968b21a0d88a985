"""Tool access: which tools a model sees and may call."""

from __future__ import annotations

from .base import AllTools, Refusal, ToolAccess
from .ecoact import EcoAct
from .prompt import Prompt

__all__ = ["AllTools", "EcoAct", "Prompt", "Refusal", "ToolAccess"]
