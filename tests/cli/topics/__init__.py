"""Tests of `linear_retry/cli/topics/`."""
