"""ToolPlanner: tags, a plan and a guided solution tree (ToolPlanner, EMNLP 2024)."""

from costgym.agents.toolplanner.tree import match, passed, solution_reward

__all__ = ["match", "passed", "solution_reward"]
