"""The leaderboard: agents under budgets over the same tasks, ranked, resumable and verifiable."""

from .board import Leaderboard, make_run_config, run

__all__ = ["Leaderboard", "make_run_config", "run"]
