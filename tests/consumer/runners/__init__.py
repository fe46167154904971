"""Tests of `linear_retry/consumer/runners/`."""
