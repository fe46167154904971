"""Micro-batches of a stream, attempted again and given up as messages are."""
