"""Members of both lines, killed at each point of leaving the line, waiting and coming back."""
