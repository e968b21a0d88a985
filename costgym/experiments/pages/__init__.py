"""Pages, charts, and episodes in words."""
