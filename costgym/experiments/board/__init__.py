"""The leaderboard: agents under budgets over the same tasks, ranked, resumable and verifiable."""
