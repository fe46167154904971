"""Tests of `linear_retry/consumer/lifecycle/`."""
