"""The version of costgym, which every recorded file names."""

__version__ = "0.1.0"
