"""Reads dead-letter topics, and what was recorded about their letters."""
