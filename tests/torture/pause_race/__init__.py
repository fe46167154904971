"""The race between a pause and an assignment."""
