"""Worlds made from real specifications: readers of API documents, the data flow between their operations, and tasks."""
