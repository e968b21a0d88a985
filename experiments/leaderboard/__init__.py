"""The leaderboard: agents under budgets over the same tasks, ranked, resumable and verifiable."""

from .board import Leaderboard, make_plan, run

__all__ = ["Leaderboard", "make_plan", "run"]
