"""Measure how fast the environments step."""
