"""Tests of `linear_retry/dlq/letters/`."""
