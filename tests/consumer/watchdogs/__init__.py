"""Tests of `linear_retry/consumer/watchdogs/`."""
