"""Tests of `linear_retry/spark/ingestion/`."""
