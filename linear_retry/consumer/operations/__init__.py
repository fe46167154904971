"""What operators see of a consumer, its end, and the watchdogs."""
