"""Tests of `linear_retry/spark/reporting/`."""
