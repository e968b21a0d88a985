"""The static site of results."""
