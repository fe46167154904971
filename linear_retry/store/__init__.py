"""The database of messages that wait, that could not be sent, and that are dead."""
