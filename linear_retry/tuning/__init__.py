"""What recorded outages say about how to wait. Needs numpy."""
