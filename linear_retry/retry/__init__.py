"""Failure handling: the decision, the circuits, and the engine that carries the decision out."""
