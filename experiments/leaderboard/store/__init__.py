"""Results in SQL."""
