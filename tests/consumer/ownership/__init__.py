"""Tests of `linear_retry/consumer/ownership/`."""
