"""`linear-retry spark`: dead letters, outages and strategies from them, with Spark."""
