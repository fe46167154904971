"""Consume a Kafka topic in order while the thing behind it is down."""
