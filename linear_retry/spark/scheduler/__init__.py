"""The scheduler on Spark's state: holds messages, and sends each at its time."""
