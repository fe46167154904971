"""Micro-batches of a stream, retried and dead-lettered like messages."""
