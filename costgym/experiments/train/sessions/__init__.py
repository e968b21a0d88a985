"""Train policies of sessions by PPO on the native batch, on counted features or with a memory of their own."""
