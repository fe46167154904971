"""A dead letter as it is read from its topic, whoever wrote it."""
