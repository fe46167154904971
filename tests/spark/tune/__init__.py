"""Tests of `linear_retry/spark/tune/`."""
