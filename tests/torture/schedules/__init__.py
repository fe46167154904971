"""Seeded schedules on the fake Kafka: is there one under which a guarantee breaks?"""
