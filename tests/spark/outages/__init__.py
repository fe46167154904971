"""Tests of `linear_retry/spark/outages/`."""
