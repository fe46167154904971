"""Attempts partitions side by side: each on one worker at a time, in its own order."""
