"""confluent_kafka's only door."""
