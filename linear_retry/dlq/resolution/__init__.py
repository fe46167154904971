"""Records which dead letters are replayed or resolved."""
