"""Tests of `linear_retry/spark/lake/`."""
