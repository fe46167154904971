"""Tests of `linear_retry/consumer/config/`."""
