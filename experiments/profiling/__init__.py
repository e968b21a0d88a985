"""Measure what the vision tools take on this machine."""
