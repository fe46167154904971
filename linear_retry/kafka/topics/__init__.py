"""Topics: described, created, read to their end, followed."""
