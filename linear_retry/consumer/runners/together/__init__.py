"""Runs the live line and the retry line of a group together, until one of them ends."""
