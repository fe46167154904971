"""Tests of `linear_retry/consumer/operations/watchdogs/`."""
