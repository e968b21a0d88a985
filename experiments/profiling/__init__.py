"""Measure the time and memory of the vision tools on this machine."""
