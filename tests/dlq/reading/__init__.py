"""Tests of `linear_retry/dlq/reading/`."""
