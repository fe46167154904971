"""The index of dead letters, beside their topics, and what the console asks of it."""
