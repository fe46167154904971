"""Tests of `linear_retry/consumer/monitoring/`."""
