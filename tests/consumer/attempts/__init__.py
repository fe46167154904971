"""Tests of `linear_retry/consumer/attempts/`."""
