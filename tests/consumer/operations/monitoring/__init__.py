"""Tests of `linear_retry/consumer/operations/monitoring/`."""
