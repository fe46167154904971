"""Tests of `linear_retry/consumer/partitions/`."""
