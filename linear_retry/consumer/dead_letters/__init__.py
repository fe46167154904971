"""Publishes dead letters, plain or in a transaction, and waits for the acknowledgement."""
