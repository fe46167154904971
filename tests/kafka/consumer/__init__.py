"""Tests of `linear_retry/kafka/consumer/`."""
