"""Draws the demo on a terminal, or writes it as lines."""
