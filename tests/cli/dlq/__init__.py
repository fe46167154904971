"""Tests of `linear_retry/cli/dlq/`."""
