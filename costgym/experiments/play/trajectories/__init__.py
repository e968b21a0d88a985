"""Recorded episodes: their format, recording, replay and verification."""
