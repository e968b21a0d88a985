"""The simulated world: clock, calls, failures, prices, tasks, the optimum, and the same world in batches."""

__version__ = "0.4.0.dev0"  # every recorded file names it
SAME_WORLD = ("0.2", "0.3", "0.4")
"""Releases that play the same: recordings and trained agents of one are read by the others."""


def same_world(version: str) -> bool:
    """Whether what this version of costgym recorded or trained replays in this one."""
    return ".".join(version.split(".")[:2]) in SAME_WORLD
