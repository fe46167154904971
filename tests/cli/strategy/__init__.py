"""Tests of `linear_retry/cli/strategy/`."""
