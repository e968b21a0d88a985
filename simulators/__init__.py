"""The simulated world: clock, calls, failures, prices, tasks, the optimum, and the same world in batches."""

__version__ = "0.2.0.dev0"  # every recorded file names it
