"""Finds the delays that would have cost least in recorded outages."""
