"""What a failure leads to: the decision, and the circuits that hold messages until their time."""
