"""The record of events on a topic: written by consumers, read by operators."""
