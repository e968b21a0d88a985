"""Leaderboard entries that others can check by replay."""
