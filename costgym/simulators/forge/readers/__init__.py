"""Readers of API documents of every format, all of which give the same operations."""
