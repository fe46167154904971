"""What is going on now, read once for all who look."""
