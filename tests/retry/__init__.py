"""Tests of `linear_retry/retry/`."""
