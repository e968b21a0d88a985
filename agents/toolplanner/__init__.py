"""ToolPlanner: tags, a plan and a guided solution tree (ToolPlanner, EMNLP 2024)."""

from .tree import match, passed, solution_reward

__all__ = ["match", "passed", "solution_reward"]
