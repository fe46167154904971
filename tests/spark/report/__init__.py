"""Tests of `linear_retry/spark/report/`."""
