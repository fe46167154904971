"""Tests of `linear_retry/spark/tables/`."""
