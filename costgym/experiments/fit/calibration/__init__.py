"""Fit a scenario to a log of real calls."""
