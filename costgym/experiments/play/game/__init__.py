"""A person plays: in a terminal, or in a browser."""
