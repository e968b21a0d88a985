"""BTP's usefulness classifiers."""
