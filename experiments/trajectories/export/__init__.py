"""Recorded episodes in the formats that other libraries read."""
