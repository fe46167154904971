"""Real clients on embedded brokers with faults."""
