"""Sessions: many queries over one small catalogue, under one budget, on one clock."""
