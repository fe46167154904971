"""Tests of `linear_retry/kafka/producers/`."""
