"""Takes messages off the line, to dead letters, retry topics or a function of the user's."""
