"""Training data for trainers and agents, collected by playing episodes."""
