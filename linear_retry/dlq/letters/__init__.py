"""Dead letters as they are read from their topic, written by this library or another system."""
