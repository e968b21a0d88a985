"""What people look at: pages, charts and episodes in words."""
