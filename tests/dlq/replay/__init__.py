"""Tests of `linear_retry/dlq/replay/`."""
