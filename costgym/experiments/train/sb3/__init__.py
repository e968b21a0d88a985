"""Train reinforcement-learning policies with Stable-Baselines3 on the native vector environments."""
