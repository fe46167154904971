"""Tests of `linear_retry/cli/outbox/`."""
