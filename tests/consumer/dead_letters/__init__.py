"""Tests of `linear_retry/consumer/dead_letters/`."""
