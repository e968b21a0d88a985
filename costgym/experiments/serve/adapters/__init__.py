"""The marketplace in the evaluators and trainers of others: Inspect AI, SkyRL, NeMo Gym, and OpenEnv's clients."""
