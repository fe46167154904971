"""Shows the demo live on a terminal, or as lines."""
