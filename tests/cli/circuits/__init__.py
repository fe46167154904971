"""Tests of `linear_retry/cli/circuits/`."""
