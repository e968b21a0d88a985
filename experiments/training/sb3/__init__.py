"""Reinforcement learning with Stable-Baselines3 on the native vector environments."""
