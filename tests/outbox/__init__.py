"""Tests of `linear_retry/outbox/`."""
