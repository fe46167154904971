"""Tests of `linear_retry/kafka/topics/`."""
