"""The version of costgym, which every recorded file names."""

__version__ = "0.2.0.dev0"
