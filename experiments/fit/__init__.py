"""Fit worlds and models to data: calibration, profiles of tools, quality of retrieval."""
