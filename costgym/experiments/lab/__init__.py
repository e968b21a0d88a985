"""Experiments on the product itself: the papers' tables, baselines, the selftest and benchmarks."""
