"""Finds outages in the journal."""
