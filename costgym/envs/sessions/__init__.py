"""Sessions: many queries under one budget."""
