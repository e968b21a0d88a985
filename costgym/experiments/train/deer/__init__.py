"""Train DEER's decision policy."""
