"""Replays dead letters in their original order, each once."""
