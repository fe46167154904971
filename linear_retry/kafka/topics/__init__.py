"""Describes, creates, reads and follows topics."""
