"""Trainers, one folder each, over one run folder format."""
