"""Who owns a consumer, one thread of one process, and how others ask it to stop, or for more."""
