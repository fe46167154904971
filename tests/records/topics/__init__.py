"""Tests of `linear_retry/records/topics/`."""
