"""Tests of `linear_retry/cli/spark/`."""
