"""Attempts messages one after another: which comes next, and what follows when it fails."""
