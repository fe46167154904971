"""The ownership of a consumer, its start and its end."""
