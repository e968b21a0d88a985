"""Trained agents that ship with the package, a folder and a card each."""
