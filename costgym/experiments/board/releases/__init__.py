"""Frozen releases of the benchmark: figures of different days compare where they are of one release."""
