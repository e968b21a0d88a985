"""Leaderboard submissions, which anyone can verify by replay."""
