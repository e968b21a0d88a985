"""DEER's decision policy."""
