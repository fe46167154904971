"""Tests of `linear_retry/spark/ingest/`."""
