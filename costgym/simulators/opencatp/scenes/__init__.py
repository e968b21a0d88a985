"""Generated scenes with ground truth, their degradations and the words for what is in them."""
