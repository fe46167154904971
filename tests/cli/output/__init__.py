"""Tests of `linear_retry/cli/output/`."""
