"""Measures other libraries on the same topic."""
