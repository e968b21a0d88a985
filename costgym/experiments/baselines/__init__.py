"""Baselines of reinforcement learning: methods, levels and training seeds side by side, as a table and learning curves."""
