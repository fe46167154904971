"""Summarises a lake for one page."""
