"""Datasets with names: what each holds, how it is built, and what its scores are measured against."""
