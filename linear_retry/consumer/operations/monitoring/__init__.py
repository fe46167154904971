"""Health, counters and listeners of one consumer."""
