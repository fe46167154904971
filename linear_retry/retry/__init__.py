"""What follows a failure: the decision, the circuits, and the engine, which says the step."""
