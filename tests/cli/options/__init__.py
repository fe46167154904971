"""Tests of `linear_retry/cli/options/`."""
