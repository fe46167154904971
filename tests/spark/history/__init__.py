"""Tests of `linear_retry/spark/history/`."""
