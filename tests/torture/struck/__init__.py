"""Members that are struck at any point of their life."""
