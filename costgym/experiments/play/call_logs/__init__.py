"""Logs of real calls: the forms that they come in, and how they are read."""
