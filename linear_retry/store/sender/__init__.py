"""Sends the messages that are due, in the order of their lanes."""
