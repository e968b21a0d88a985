"""Commands that train and reproduce."""
