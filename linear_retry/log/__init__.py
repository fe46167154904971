"""Writes the log: the listener that is always on, and every other line."""
