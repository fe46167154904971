"""A fake Kafka in virtual time, with faults on command."""
