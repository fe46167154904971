"""Tests of `linear_retry/consumer/letters/`."""
