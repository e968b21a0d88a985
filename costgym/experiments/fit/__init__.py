"""Fit worlds and models to data: calibration, forged worlds, profiles of tools, twins of models."""
