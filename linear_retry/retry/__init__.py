"""What a failure leads to: the decision, the circuits, and the engine that puts it into effect."""
