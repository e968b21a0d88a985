"""The leaderboard: agents under budgets over the same tasks, ranked, resumable and verifiable."""

from .board import Leaderboard, run
from .run_config import RunConfig, make_run_config

__all__ = ["Leaderboard", "RunConfig", "make_run_config", "run"]
