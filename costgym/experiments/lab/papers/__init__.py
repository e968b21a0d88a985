"""Reproduce the tables of published papers with simulated models and compare the results."""
