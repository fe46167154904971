"""Tries to break the guarantees, layer by layer: `python -m tests.torture --help`."""
