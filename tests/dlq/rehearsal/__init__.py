"""Tests of `linear_retry/dlq/rehearsal/`."""
