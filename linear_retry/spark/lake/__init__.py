"""The lake: a directory of Delta tables."""
