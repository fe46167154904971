"""A sender in a process of its own, struck at a numbered point."""
