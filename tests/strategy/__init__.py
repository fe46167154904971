"""Tests of `linear_retry/strategy/`."""
