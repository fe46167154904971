"""Tests of `linear_retry/spark/tuning/`."""
