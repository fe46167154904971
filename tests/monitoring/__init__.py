"""Tests of `linear_retry/monitoring/`."""
