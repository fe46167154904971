"""Reads dead letters and the journal from Kafka into the lake, each record once."""
