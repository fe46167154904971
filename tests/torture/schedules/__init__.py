"""Seeded schedules on the fake Kafka, none of which may break a guarantee."""
