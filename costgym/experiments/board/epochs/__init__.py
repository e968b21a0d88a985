"""Epochs of a leaderboard: everybody who enters is played on the same secret tasks, worlds and seeds."""
