"""Train BTP's usefulness classifiers."""
