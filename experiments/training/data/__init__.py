"""Data that trainers and agents learn from, collected by playing episodes."""
