"""Checks the user's configuration, before any I/O."""
