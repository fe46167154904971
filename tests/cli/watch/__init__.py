"""Tests of `linear_retry/cli/watch/`."""
