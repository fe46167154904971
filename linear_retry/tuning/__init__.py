"""From recorded outages to the strategy that would have cost least."""
