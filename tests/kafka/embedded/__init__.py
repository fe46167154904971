"""Tests of `linear_retry/kafka/embedded/`."""
