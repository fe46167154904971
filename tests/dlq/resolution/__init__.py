"""Tests of `linear_retry/dlq/resolution/`."""
