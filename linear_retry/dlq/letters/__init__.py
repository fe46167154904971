"""A dead letter as it is read from its topic, of this library or another system."""
