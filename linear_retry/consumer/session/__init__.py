"""Who owns a consumer, and how it starts and ends."""
