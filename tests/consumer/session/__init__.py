"""Tests of `linear_retry/consumer/session/`."""
