"""What operators look for: pages, counts and statistics; values are never read."""
